// The samples of the fuzz targets for the tests, and what bad files must lead to.
#pragma once

#include <string>
#include <vector>

#include "fuzz/data_samples.h"
#include "testing.h"
#include "trainer/data/data_error.h"
#include "trainer/files/file_system.h"

namespace normball::testing {

using fuzz::bytes_of;
using fuzz::ByteVector;
using fuzz::cifar10_file;
using fuzz::counting;
using fuzz::gzip;
using fuzz::idx_file;
using fuzz::shard_file;
using fuzz::toy_vocabulary;

template <class Body>
void expect_data_error(const Body& body, const std::vector<std::string>& parts) {
  expect_error<trainer::data::DataError>(body, parts);
}

template <class Body>
void expect_file_error(const Body& body, const std::vector<std::string>& parts) {
  expect_error<trainer::files::FileError>(body, parts);
}

}  // namespace normball::testing
