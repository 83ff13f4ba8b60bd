// What a path holds, by its files' names and first bytes.
#pragma once

#include <cstdint>
#include <string>

namespace normball::trainer::data {

enum class DatasetKind : std::uint8_t { Images, IdxFile, ImageFiles, Shards, Bpe, Text };

// Throws FileError where nothing is there, DataError where a directory holds nothing known.
DatasetKind dataset_kind(const std::string& path);

}  // namespace normball::trainer::data
