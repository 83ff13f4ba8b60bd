#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "trainer/runtime/progress.h"
#include "trainer/runtime/terminal.h"

namespace normball::trainer::runtime {
namespace {

Snapshot example() {
  return {.step = 1234,
          .steps = 5100,
          .loss = 3.28125,
          .lr = 0.00036,
          .dual_norm = 612.34,
          .eta = 600,
          .clipped_share = 0.625,
          .items_per_second = 1.23e5,
          .items = "tokens",
          .validation = 3.3,
          .validation_name = "val loss",
          .seconds_left = 3725};
}

TEST(Progress, WideTerminalShowsEverything) {
  const auto line = progress_line(example(), 200);
  for (const char* part :
       {" 24%", "1234/5100", "loss 3.2812", "val loss 3.3000", "lr 0.00036", "s 612.3", "η 600",
        "clipped 62%", "123k tokens/s", "ETA 1:02:05", "▕█"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " not in: " << line;
  }
}

TEST(Progress, NeverWiderThanTheTerminal) {
  for (int columns = 0; columns < 220; ++columns) {
    auto snapshot = example();
    for (const double loss : {1e-9, 3.0, 123456.789, double{INFINITY}, double{NAN}}) {
      snapshot.loss = loss;
      EXPECT_LE(display_width(progress_line(snapshot, columns)), columns) << columns;
    }
  }
}

TEST(Progress, NarrowTerminalKeepsStepAndLoss) {
  const auto line = progress_line(example(), 24);
  EXPECT_NE(line.find("1234/5100"), std::string::npos) << line;
  EXPECT_NE(line.find("loss 3.2812"), std::string::npos) << line;
  EXPECT_EQ(line.find("clipped"), std::string::npos) << line;
}

TEST(Progress, BarGrowsWithTheSteps) {
  const auto cells = [](std::int64_t step) {
    auto snapshot = example();
    snapshot.step = step;
    const auto line = progress_line(snapshot, 200);
    int full = 0;
    for (size_t at = 0; (at = line.find("█", at)) != std::string::npos; at += 3) ++full;
    return full;
  };
  EXPECT_EQ(cells(0), 0);
  EXPECT_EQ(cells(2550), 15);
  EXPECT_EQ(cells(5100), 30);
}

TEST(Progress, LineDoesNotShiftWhileStepsGrow) {
  auto a = example(), b = example();
  a.step = 7;
  b.step = 70;
  const auto column = [](const Snapshot& snapshot) {
    const auto line = progress_line(snapshot, 200);
    return display_width(line.substr(0, line.find("loss")));
  };
  EXPECT_EQ(column(a), column(b));
}

TEST(Progress, PlainLineIsAscii) {
  const auto line = plain_line(example());
  EXPECT_EQ(line,
            "step 1234/5100 loss 3.28125 lr 0.00036 s 612.34 eta 600 clipped 62% 123k tokens/s "
            "ETA 1:02:05");
  for (const char c : line) EXPECT_LT(static_cast<unsigned char>(c), 128);
}

TEST(Progress, Numbers) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(7.25), "7.2");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(999.6), "1.0k");
  EXPECT_EQ(short_count(2.1e6), "2.1M");
  EXPECT_EQ(short_count(NAN), "--");
  EXPECT_EQ(duration_text(42.4), "42s");
  EXPECT_EQ(duration_text(59.6), "1:00");
  EXPECT_EQ(duration_text(185), "3:05");
  EXPECT_EQ(duration_text(3600 * 52 + 60), "2d 04h");
  EXPECT_EQ(duration_text(INFINITY), "--");
  EXPECT_EQ(display_width("η █a"), 4);
}

TEST(Progress, PipedOutputHasOnlyPlainLines) {
  std::ostringstream out;
  {
    Progress progress(out, false);
    progress.update(example(), true);
    progress.update(example(), false);
    progress.evaluated(example());
    progress.print("saved");
  }
  EXPECT_EQ(out.str(), plain_line(example()) + "\nstep 1234/5100 val loss 3.3\nsaved\n");
}

TEST(Progress, ANewValidationShowsAtOnce) {
  std::ostringstream out;
  Progress progress(out, true);
  auto snapshot = example();
  progress.update(snapshot, false);
  snapshot.validation = 3.125;
  progress.evaluated(snapshot);
  EXPECT_NE(out.str().find("val loss 3.1250"), std::string::npos) << out.str();
}

TEST(Progress, PrintedTextCannotControlTheTerminal) {
  std::ostringstream out;
  Progress progress(out, false);
  progress.print("a\033[31mred\a\n\tb");
  EXPECT_EQ(out.str(), "a\\x1b[31mred\\x07\n\tb\n");
}

TEST(Terminal, OnlyPrintableTextStays) {
  EXPECT_EQ(printable("ü × 水\n\t."), "ü × 水\n\t.");
  EXPECT_EQ(printable(std::string_view("\0\x1b\x7f\r", 4)), "\\x00\\x1b\\x7f\\x0d");
  EXPECT_EQ(printable("\xc2\x9b"
                      "1m \xff \xe2\x80\xae"),
            "\\xc2\\x9b1m \\xff \\xe2\\x80\\xae");
}

// However a text is cut into pieces, all of them together are the same.
TEST(Terminal, PiecesMayEndInsideACharacter) {
  const std::string text = "aü×水🎈\x1b\xf0\x9f\xff\xe6\xb0";
  for (size_t size = 1; size < 6; ++size) {
    PrintablePieces pieces;
    std::string out;
    for (size_t at = 0; at < text.size(); at += size) out += pieces.add(text.substr(at, size));
    EXPECT_EQ(out + pieces.finish(), printable(text)) << size;
  }
}

TEST(Terminal, CutsAtCharacters) {
  EXPECT_EQ(cut_to_width("aü水b", 3), "aü水");
  EXPECT_EQ(cut_to_width("aü水b", 9), "aü水b");
  EXPECT_EQ(cut_to_width("aü", -1), "");
}

TEST(Progress, TerminalRedrawsOneLineAndKeepsItBelowOtherText) {
  std::ostringstream out;
  Progress progress(out, true);
  progress.update(example(), false);
  const auto line = progress_line(example(), terminal_columns() - 1);
  EXPECT_EQ(out.str(), "\r" + line + "\033[K");
  auto next = example();
  next.step = 1235;
  progress.update(next, false);  // within a tenth of a second: not drawn yet
  EXPECT_EQ(out.str(), "\r" + line + "\033[K");
  progress.print("saved");
  EXPECT_TRUE(out.str().ends_with("\r\033[Ksaved\n" + line));
  progress.finish();
  EXPECT_NE(out.str().find("1235/5100"), std::string::npos);
  EXPECT_EQ(out.str().back(), '\n');
}

}  // namespace
}  // namespace normball::trainer::runtime
