// Batches divided over several processes: together they see what one alone sees, in its order.
#include <numeric>

#include "testing.h"
#include "tests/trainer/data/data_samples.h"
#include "trainer/data/image_loader.h"
#include "trainer/data/pieces.h"
#include "trainer/data/token_loader.h"

namespace normball::testing {
namespace {

using namespace trainer::data;

TEST(Pieces, CoverEveryBatchOnceAndEvenly) {
  for (const std::int64_t parts : {1, 2, 3, 7}) {
    for (const std::int64_t micro : {1, 4, 5}) {
      for (const int processes : {1, 2, 3, 4}) {
        for (const bool whole : {false, true}) {
          std::int64_t next = 0;
          for (int rank = 0; rank < processes; ++rank) {
            std::int64_t items = 0;
            for (const auto& piece : pieces_of(parts, micro, rank, processes, whole)) {
              EXPECT_EQ(piece.part * micro + piece.first, next);
              EXPECT_LE(piece.end, micro);
              EXPECT_TRUE(!whole || piece.items() == micro);
              next += piece.items();
              items += piece.items();
            }
            const std::int64_t unit = whole ? micro : 1;
            EXPECT_LE(std::abs(items * processes - parts * micro), (processes - 1) * unit);
          }
          EXPECT_EQ(next, parts * micro);
        }
      }
    }
  }
}

TEST(Pieces, OfOneProcessAreItsMicroBatches) {
  EXPECT_EQ(pieces_of(2, 5, 0, 1), (std::vector<Piece>{{0, 0, 5}, {1, 0, 5}}));
  EXPECT_EQ(pieces_of(3, 4, 1, 2), (std::vector<Piece>{{1, 2, 4}, {2, 0, 4}}));
  EXPECT_EQ(pieces_of(1, 4, 3, 4), (std::vector<Piece>{{0, 3, 4}}));
}

// The loader alone, and one for each process: after every batch all have the same cursor.
template <class Batch, class Loader, class Items>
void expect_same_items(const Loader& loader, std::int64_t parts, std::int64_t micro,
                       const Items& items_of) {
  constexpr int batches = 6;
  for (const int processes : {1, 2, 3}) {
    Loader alone = loader;
    std::vector<PieceLoader<Loader>> shared;
    std::vector<size_t> counts;
    for (int rank = 0; rank < processes; ++rank) {
      const auto pieces = pieces_of(parts, micro, rank, processes);
      counts.push_back(pieces.size());
      shared.emplace_back(loader, parts, pieces);
    }
    for (int batch = 0; batch < batches; ++batch) {
      Batch buffer;
      decltype(items_of(buffer)) expected, together;
      for (std::int64_t part = 0; part < parts; ++part) {
        alone.next(buffer);
        const auto items = items_of(buffer);
        expected.insert(expected.end(), items.begin(), items.end());
      }
      const DataCursor after = buffer.after;
      for (size_t rank = 0; rank < shared.size(); ++rank) {
        for (size_t piece = 0; piece < counts[rank]; ++piece) {
          shared[rank].next(buffer);
          const auto items = items_of(buffer);
          together.insert(together.end(), items.begin(), items.end());
        }
        EXPECT_EQ(buffer.after, after);
      }
      EXPECT_EQ(together, expected);
    }
  }
}

TEST(Pieces, OfImagesAreThoseOfOneProcessAcrossEpochs) {
  constexpr std::int64_t count = 31;
  ByteVector pixels(count * 9), labels(count);
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
  std::iota(labels.begin(), labels.end(), std::uint8_t{0});
  const ImageSet images{count, 1, 3, 3, bytes_of(pixels), bytes_of(labels)};
  for (const std::int64_t micro : {4, 5}) {
    const ImageLoader loader(images, {micro, {true, 1}, {{0}, {1}}}, {.seed = 3});
    expect_same_items<ImageBatch>(loader, 2, micro, [](const ImageBatch& batch) {
      std::vector<std::vector<float>> rows;
      for (std::int64_t i = 0; i < batch.count; ++i) {
        rows.emplace_back(batch.pixels.begin() + 9 * i, batch.pixels.begin() + 9 * (i + 1));
        rows.back().push_back(static_cast<float>(batch.labels[static_cast<size_t>(i)]));
      }
      return rows;
    });
  }
}

TEST(Pieces, OfTokensAreThoseOfOneProcessAcrossEpochs) {
  std::vector<Token> tokens(103);
  std::iota(tokens.begin(), tokens.end(), Token{0});
  TokenData data;
  data.append(trainer::files::Bytes::own(std::move(tokens)), TokenData::Width::Two);
  constexpr std::int64_t micro = 5, length = 4;
  const TokenLoader loader(data, {.batch = micro, .length = length}, {.seed = 3});
  expect_same_items<TokenBatch>(loader, 3, micro, [](const TokenBatch& batch) {
    EXPECT_EQ(batch.inputs.size(), batch.targets.size());
    std::vector<std::int64_t> both;
    for (size_t i = 0; i < batch.inputs.size(); ++i) {
      both.push_back(1000 * batch.inputs[i] + batch.targets[i]);
    }
    return both;
  });
}

}  // namespace
}  // namespace normball::testing
