// What `normball data show` prints.
#pragma once

#include <string>

#include "trainer/data/dataset_kind.h"
#include "trainer/data/token_data.h"

namespace normball::cli {

// How to look at tokens.
struct TokenView {
  std::string bpe;                // directory of a vocabulary; empty: bytes, or as the data says
  int vocabulary = 0;             // 0: as the data says
  double validation_share = 0.1;  // of a text
  int threads = 1;
};

// Opens shards or a text and checks them.
trainer::data::TokenDataset load_tokens(const std::string& path, trainer::data::DatasetKind kind,
                                        const TokenView& view);

// A directory and a text have a part for training and one for validation; shards that are named one
// by one or by a pattern are just tokens.
bool has_parts(const std::string& path, trainer::data::DatasetKind kind);

void show_data(const std::string& path, const TokenView& view);

}  // namespace normball::cli
