// Data sets as batches of tensors: what the loop trains and evaluates on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/data/cursor.h"
#include "trainer/data/pieces.h"
#include "trainer/data/tokenizer.h"
#include "trainer/models/model.h"

namespace normball::trainer::train {

// What a model must know of the data it sees.
struct DataFacts {
  std::string unit;                                  // "images" or "tokens"
  std::int64_t channels = 0, size = 0, classes = 0;  // of images
  int vocabulary = 0;                                // of tokens
  std::optional<data::Tokenizer> tokenizer = {};
  std::int64_t items = 0;       // of an epoch: images, or windows of tokens
  std::int64_t item_units = 1;  // images or tokens of an item
  bool has_validation = false;
  std::vector<std::string> warnings = {};  // what a user may not expect
};

class DataSource {
 public:
  virtual ~DataSource() = default;

  const DataFacts& facts() const { return facts_; }

  // The next batch, which lives until the one after it. The following one is made meanwhile.
  virtual models::Batch next() = 0;
  // From now on only these pieces of every train.batch: one each, instead of its micro-batches.
  virtual void divide(std::vector<data::Piece> pieces) = 0;
  // Where the data stands after the last batch, and how to go on from there.
  virtual data::DataCursor cursor() const = 0;
  virtual void seek(const data::DataCursor& cursor) = 0;

  // The same batches every time, whatever the training drew. How many images or windows they have
  // in all does not depend on train.micro_batch, which only says how many are taken at a time.
  virtual std::int64_t evaluation_batches() const = 0;
  virtual std::int64_t evaluation_items() const = 0;
  virtual models::Batch evaluation_batch(std::int64_t index) = 0;

  // Of every byte that is trained on, or validated with: a resumed run must have the same.
  virtual std::string training_digest() const = 0;
  virtual std::string validation_digest() const = 0;

  // Seconds that next() has waited for batches.
  double waited() const { return waited_; }
  // What is to be said about the data once it has been trained on.
  virtual std::vector<std::string> remarks() const { return {}; }

  // Training inputs for what a model sets from the data before the first step; empty for tokens.
  virtual torch::Tensor preparation_inputs() = 0;

 protected:
  DataFacts facts_;
  double waited_ = 0;
};

// How many of the items eval.batches covers; a batch is eval.batch, or as in training.
std::int64_t evaluated_of(std::int64_t items, const config::Config& config);
// How many go through the model at a time: what fits into memory in training does here.
std::int64_t evaluated_at_once(const config::Config& config);

// Throws, with the keys, where a micro-batch has more images than there are.
void require_enough_images(const config::Config& config, std::int64_t images,
                           const std::string& path);
// For facts().warnings: that all images are of one class, where they are.
void warn_of_one_class(DataFacts& facts, const std::string& path);

// Everything is read and checked before the first step; of image folders, only their lists.
std::unique_ptr<DataSource> open_data(const config::Config& config);

}  // namespace normball::trainer::train
