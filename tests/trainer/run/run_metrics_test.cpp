#include <cmath>

#include "fuzz/mutate.h"
#include "normball/random.h"
#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/run/metrics.h"

namespace normball::trainer::run {
namespace {

using testing::expect_error;
using testing::FaultyFileSystem;
using testing::read;
using testing::ScratchDirectory;
using testing::write;

MetricsLine line_at(std::int64_t step) {
  return {.step = step,
          .values = {{"loss", 1.0 / static_cast<double>(step + 1)},
                     {"clipped", step % 2 == 0},
                     {"lr", 0.1},
                     {"tokens", step * 1000},
                     {"note", std::string("a \"b\"\n")}}};
}

TEST(Metrics, LineIsOneJsonObjectInOrder) {
  EXPECT_EQ(to_json(MetricsLine{.step = 3,
                                .values = {{"loss", 0.5},
                                           {"eta", 2.0},
                                           {"clipped", true},
                                           {"tokens", std::int64_t{7}},
                                           {"text", std::string("a\"")}}}),
            R"({"step": 3, "loss": 0.5, "eta": 2.0, "clipped": true, "tokens": 7, "text": "a\""})");
}

TEST(Metrics, ValuesReadBackBitForBit) {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    const double x = random.normal() * std::pow(10, 60 * random.normal());
    const auto read =
        parse_metrics_line(to_json(MetricsLine{.step = i, .values = {{"x", x}}}), "x");
    EXPECT_EQ(std::get<double>(read.values[0].second), x);
    EXPECT_EQ(read.step, i);
  }
}

TEST(Metrics, NanAndInfinityHaveATextOfTheirOwn) {
  const MetricsLine line{.step = 0,
                         .values = {{"a", std::nan("")}, {"b", INFINITY}, {"c", -INFINITY}}};
  const auto text = to_json(line);
  EXPECT_EQ(text, R"({"step": 0, "a": "NaN", "b": "Infinity", "c": "-Infinity"})");
  const auto read = parse_metrics_line(text, "x");
  EXPECT_TRUE(std::isnan(*read.number("a")));
  EXPECT_EQ(read.number("b"), INFINITY);
  EXPECT_EQ(read.number("c"), -INFINITY);
  EXPECT_FALSE(read.number("d"));
}

TEST(Metrics, ResumedFileIsByteIdenticalToAnUninterruptedOne) {
  ScratchDirectory scratch;
  {
    MetricsWriter writer(scratch / "whole.jsonl");
    for (int step = 0; step < 40; ++step) writer.write(line_at(step));
  }
  const auto whole = read(scratch / "whole.jsonl");
  for (const int stop : {0, 7, 25, 39}) {
    for (const int checkpoint : {0, 5, 24, 39}) {
      if (checkpoint > stop) continue;
      {
        MetricsWriter writer(scratch / "part.jsonl");
        for (int step = 0; step <= stop; ++step) writer.write(line_at(step));
      }
      write(scratch / "part.jsonl",
            read(scratch / "part.jsonl") + "{\"step\": 4");  // torn
      MetricsWriter writer(scratch / "part.jsonl", checkpoint);
      for (int step = checkpoint + 1; step < 40; ++step) writer.write(line_at(step));
      writer.sync();
      EXPECT_EQ(read(scratch / "part.jsonl"), whole) << stop << " " << checkpoint;
    }
  }
}

TEST(Metrics, NewRunStartsEmptyAndStepsDoNotGoBack) {
  ScratchDirectory scratch;
  write(scratch / "m.jsonl", "{\"step\": 9}\n");
  MetricsWriter writer(scratch / "m.jsonl");
  EXPECT_EQ(read(scratch / "m.jsonl"), "");
  writer.write({.step = 5});
  writer.write({.step = 5});  // an evaluation at the same step
  testing::expect_invalid([&] { writer.write({.step = 4}); },
                          {"[MetricsWriter]", "step 4", "step 5"});
}

TEST(Metrics, ResumeWithoutAFileIsFine) {
  ScratchDirectory scratch;
  MetricsWriter writer(scratch / "m.jsonl", 7);
  writer.write({.step = 8});
  EXPECT_EQ(read(scratch / "m.jsonl"), "{\"step\": 8}\n");
}

TEST(Metrics, DamagedEndIsLeftOutAndDamageInTheMiddleIsAnError) {
  ScratchDirectory scratch;
  write(scratch / "m.jsonl", "{\"step\": 1}\n{\"step\": 2}\n{\"st\n\0\0");
  const auto metrics = read_metrics(scratch / "m.jsonl");
  EXPECT_EQ(metrics.lines.size(), 2u);
  EXPECT_FALSE(metrics.cut_off);  // the line is whole, and no line of metrics
  EXPECT_NE(metrics.damage.find("m.jsonl:3: not a JSON object"), std::string::npos);
  write(scratch / "m.jsonl", "{\"step\": 1}\n{\"step\": 2}\n{\"st");
  EXPECT_TRUE(read_metrics(scratch / "m.jsonl").cut_off);
  { MetricsWriter writer(scratch / "m.jsonl", 2); }
  EXPECT_EQ(read(scratch / "m.jsonl"), "{\"step\": 1}\n{\"step\": 2}\n");
  EXPECT_FALSE(read_metrics(scratch / "m.jsonl").cut_off);

  const std::string bad = "{\"step\": 1}\nnonsense\n{\"step\": 2}\n";
  write(scratch / "m.jsonl", bad);
  expect_error<std::runtime_error>([&] { read_metrics(scratch / "m.jsonl"); },
                                   {"m.jsonl:2", R"(put {"step": 1} in its place)"});
  expect_error<std::runtime_error>([&] { MetricsWriter(scratch / "m.jsonl", 2); }, {"m.jsonl:2"});
  EXPECT_EQ(read(scratch / "m.jsonl"), bad);  // nothing is lost
  // The advice works, also where the number of lines is known.
  write(scratch / "m.jsonl", "{\"step\": 1}\n{\"step\": 1}\n{\"step\": 2}\n");
  check_metrics(scratch / "m.jsonl", 2, 3);
  EXPECT_EQ(read_metrics(scratch / "m.jsonl").lines.size(), 3u);
}

TEST(Metrics, AWriterKnowsItsFile) {
  ScratchDirectory scratch;
  const auto path = scratch / "m.jsonl";
  MetricsWriter writer(path);
  EXPECT_TRUE(writer.writes_to(path));
  std::filesystem::rename(path, scratch / "n.jsonl");
  EXPECT_FALSE(writer.writes_to(path));
  EXPECT_TRUE(writer.writes_to(scratch / "n.jsonl"));
  write(path, "");  // another file of that name
  EXPECT_FALSE(writer.writes_to(path));
}

TEST(Metrics, LostLinesAreNoticed) {
  ScratchDirectory scratch;
  const auto path = scratch / "m.jsonl";
  {
    MetricsWriter writer(path);
    for (int step = 1; step <= 3; ++step) writer.write({.step = step});
    EXPECT_EQ(writer.lines(), 3);
  }
  EXPECT_EQ(MetricsWriter(path, 2).lines(), 2);
  check_metrics(path, 2, 2);
  check_metrics(path, 2);
  check_metrics(scratch / "none", 2, 2);  // says the trainer
  expect_error<std::runtime_error>([&] { check_metrics(path, 2, 3); },
                                   {"m.jsonl", "2 of the 3 lines", "step 2", "lost"});
}

TEST(Metrics, FaultsLoseAtMostTheLineThatFailed) {
  for (int k = 0; k < 12; ++k) {
    ScratchDirectory scratch;
    { MetricsWriter(scratch / "m.jsonl").write(line_at(0)); }
    const auto before = read(scratch / "m.jsonl");
    FaultyFileSystem files(k, ENOSPC);
    int written = 1;
    try {
      MetricsWriter writer(scratch / "m.jsonl", 0, files);
      for (int step = 1; step < 9; ++step) {
        try {
          writer.write(line_at(step));
          ++written;
        } catch (const files::FileError& error) {
          EXPECT_NE(std::string(error.what()).find("disk full while writing"), std::string::npos);
        }
      }
      const auto metrics = read_metrics(scratch / "m.jsonl");
      EXPECT_EQ(metrics.lines.size(), static_cast<size_t>(written));
      EXPECT_FALSE(metrics.cut_off);
    } catch (const files::FileError&) {  // opening or cutting failed
      EXPECT_EQ(read(scratch / "m.jsonl"), before);
    }
  }
}

TEST(Metrics, MutatedFilesAreReadOrRefused) {
  ScratchDirectory scratch;
  std::string good;
  for (int step = 0; step < 5; ++step) good += to_json(line_at(step)) + "\n";
  Random random(9);
  for (int i = 0; i < testing::mutations(3000); ++i) {
    const std::string text = fuzz::mutated(good, good, random);
    write(scratch / "m.jsonl", text);
    try {
      EXPECT_LE(read_metrics(scratch / "m.jsonl").lines.size(), text.size() / 10);
    } catch (const std::runtime_error& error) {
      ASSERT_EQ(std::string(error.what()).front(), '[');
    }
  }
}

}  // namespace
}  // namespace normball::trainer::run
