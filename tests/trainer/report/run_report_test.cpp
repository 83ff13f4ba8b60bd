#include <cmath>
#include <nlohmann/json.hpp>

#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/report/report.h"

namespace normball::trainer::report {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::ScratchDirectory;
using testing::write;

nlohmann::json embedded(const std::string& page) {
  const auto begin = page.find('>', page.find("id=\"runs\"")) + 1;
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Report, ReadsARunDirectory) {
  ScratchDirectory scratch;
  fs::create_directory(scratch / "demo");
  write(scratch / "demo/config.toml",
        "[optimizer]\nmethod = \"ggnc\"\nlr = 0.125\nrho = 60\n[train]\nbatch = 64\n");
  write(scratch / "demo/metrics.jsonl",
        "{\"step\": 1, \"loss\": 2.5, \"clipped\": true, \"images_per_second\": 100, "
        "\"seconds\": 1}\n"
        "{\"step\": 1, \"val_accuracy\": 0.5, \"seconds\": 2}\n"
        "{\"step\": 2, \"loss\": \"NaN\", \"clipped\": false, \"images_per_second\": 300, "
        "\"seconds\": 3}\n"
        "{\"step\": 3, \"lo");
  const RunData run = read_run((scratch / "demo").string() + "/");
  EXPECT_EQ(run.name, "demo");
  EXPECT_EQ(run.settings.at("method"), "ggnc");
  EXPECT_EQ(run.settings.at("lr"), "0.125");
  EXPECT_EQ(run.settings.at("rho"), "60");
  EXPECT_EQ(run.steps, 2);
  EXPECT_EQ(run.seconds, 3);
  EXPECT_EQ(run.throughput, 200);
  EXPECT_EQ(run.items, "images");
  EXPECT_EQ(run.clipped_share, 0.5);
  EXPECT_EQ(run.nonfinite_step, 2);
  EXPECT_EQ(run.curves.at("loss").size(), 2u);
  EXPECT_EQ(run.curves.at("val_accuracy").at(0).value, 0.5);
  ASSERT_EQ(run.remarks.size(), 2u);
  EXPECT_NE(run.remarks[0].find("cut off"), std::string::npos);
  EXPECT_EQ(run.remarks[1], "loss or gradient were not finite at step 2");
}

TEST(Report, MarksABestOnlyAmongRunsOfOneTask) {
  ScratchDirectory scratch;
  const auto run_of = [&](const std::string& config) {
    write(scratch / "config.toml", config);
    write(scratch / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\n");
    return read_run(scratch.path());
  };
  const std::string gpt = "[model]\nkind = \"gpt\"\n[data]\nkind = \"text\"\n";
  const auto a = run_of(gpt + "path = \"/a.txt\"\n"), b = run_of(gpt + "path = \"/b.txt\"\n");
  const auto again = run_of(gpt + "path = \"/a.txt\"\n[optimizer]\nlr = 0.5\n");
  const auto images = run_of("[model]\nkind = \"mlp\"\n[data]\nkind = \"fashion-mnist\"\n");
  const auto marks = [](const std::vector<RunData>& runs) {
    return report_page(runs).find("data-one-task=\"yes\"") != std::string::npos;
  };
  EXPECT_TRUE(marks({a}));
  EXPECT_TRUE(marks({a, again}));
  EXPECT_FALSE(marks({a, b}));
  EXPECT_FALSE(marks({a, again, images}));
}

TEST(Report, MarksStepsThatWereSkippedAndRunsThatStopped) {
  ScratchDirectory scratch;
  const auto run_of = [&](const std::string& lines) {
    write(scratch / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5, \"lr\": 0.5}\n" + lines);
    return read_run(scratch.path());
  };
  const auto skips = run_of(
      "{\"step\": 2, \"loss\": \"NaN\", \"lr\": 0.5, \"nonfinite\": \"loss\", \"skipped\": true}\n"
      "{\"step\": 3, \"loss\": 2.0, \"lr\": 0.5, \"nonfinite\": \"w\", \"skipped\": true}\n"
      "{\"step\": 4, \"loss\": 1.5, \"lr\": 0.5}\n");
  EXPECT_EQ(skips.nonfinite_step, 2);
  EXPECT_EQ(skips.skipped, 2);
  EXPECT_EQ(skips.curves.at("lr").at(1).value, 0.5);
  const auto stops = run_of(
      "{\"step\": 2, \"loss\": \"NaN\", \"lr\": 0.5, \"nonfinite\": \"loss\", \"stopped\": "
      "true}\n");
  EXPECT_EQ(stops.nonfinite_step, 2);
  EXPECT_EQ(stops.skipped, 0);
  EXPECT_EQ(stops.remarks[0], "stopped at step 2: loss or gradient were not finite");
  EXPECT_EQ(skips.remarks[0], "skipped 2 steps as not finite, the first at step 2");
  // As earlier versions wrote it: zeros that must not be drawn.
  const auto earlier =
      run_of("{\"step\": 2, \"loss\": 0.0, \"lr\": 0.0, \"nonfinite\": \"loss\"}\n");
  EXPECT_EQ(earlier.skipped, 1);
  EXPECT_TRUE(std::isnan(earlier.curves.at("loss").at(1).value));
  EXPECT_TRUE(std::isnan(earlier.curves.at("lr").at(1).value));
  EXPECT_EQ(embedded(report_page(std::vector{skips})).at(0).at("skipped"), 2);
}

// Without JavaScript the page still says what was run, and why there is no curve.
TEST(Report, CanBeReadWithoutScripts) {
  ScratchDirectory scratch;
  write(scratch / "config.toml", "[optimizer]\nmethod = \"scion\"\nlr = 0.125\n");
  write(scratch / "metrics.jsonl",
        "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 7, \"loss\": 1.5, \"val_loss\": 1.75}\n");
  auto run = read_run(scratch.path());
  run.name = "<b>bold";
  run.remarks = {"a & b"};
  const std::string page = report_page({&run, 1});
  const auto begin = page.find("<noscript>"), end = page.find("</noscript>");
  ASSERT_LT(begin, end);
  ASSERT_NE(end, std::string::npos);
  const std::string text = page.substr(begin, end - begin);
  for (const char* part : {"JavaScript", "&lt;b&gt;bold", "<td>scion</td><td>0.125</td><td>7</td>",
                           "<td>–</td><td>1.75</td><td>1.5</td>", "a &amp; b"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Report, MissingPiecesAreErrorsOrRemarks) {
  ScratchDirectory scratch;
  expect_error<std::runtime_error>([&] { read_run(scratch.path()); },
                                   {"[report]", "has no metrics.jsonl"});
  write(scratch / "metrics.jsonl", "");
  const auto started = read_run(scratch.path());
  EXPECT_EQ(started.steps, 0);
  EXPECT_EQ(started.remarks.at(0), "no step is logged yet");
  write(scratch / "metrics.jsonl", "{\"step\": 1, \"loss\": 1}\n");
  const auto run = read_run(scratch.path());
  ASSERT_EQ(run.remarks.size(), 1u);
  EXPECT_NE(run.remarks[0].find("config.toml"), std::string::npos);
  EXPECT_TRUE(run.unreadable);
  write(scratch / "config.toml", "");
  EXPECT_FALSE(read_run(scratch.path()).unreadable);
}

TEST(Report, MarksRunsThatDivergedUnlessTheyWentOn) {
  ScratchDirectory scratch;
  write(scratch / "config.toml", "");
  const std::string lines =
      "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"diverged\": \"too large\"}\n";
  write(scratch / "metrics.jsonl", lines);
  const auto diverged = read_run(scratch.path());
  EXPECT_TRUE(diverged.diverged);
  EXPECT_EQ(diverged.remarks, std::vector<std::string>{"diverged: too large"});
  EXPECT_NE(report_page({&diverged, 1}).find("\"diverged\":true"), std::string::npos);
  write(scratch / "metrics.jsonl", lines + "{\"step\": 3, \"loss\": 1.5}\n");
  const auto went_on = read_run(scratch.path());
  EXPECT_FALSE(went_on.diverged);
  EXPECT_TRUE(went_on.remarks.empty());
}

TEST(Report, AWholeLineOfGarbageIsNotCutOff) {
  ScratchDirectory scratch;
  write(scratch / "config.toml", "");
  write(scratch / "metrics.jsonl", "{\"step\": 1, \"loss\": 2.5}\ngarbage\n");
  const auto run = read_run(scratch.path());
  ASSERT_EQ(run.remarks.size(), 1u);
  EXPECT_EQ(run.remarks[0].find("cut off"), std::string::npos);
  EXPECT_NE(run.remarks[0].find("metrics.jsonl:2: not a JSON object"), std::string::npos);
}

TEST(Report, EqualNamesAreToldApart) {
  std::vector<RunData> runs(6);
  const char* paths[] = {"/x/a/demo", "/x/b/demo", "/y/b/demo", "/x/other", "/x/other", "/demo"};
  for (size_t i = 0; i < runs.size(); ++i) runs[i].directory = paths[i];
  tell_apart(runs);
  const char* names[] = {"a/demo", "x/b/demo", "y/b/demo", "other", "other (2)", "/demo"};
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i].name, names[i]);
}

TEST(Report, ThinningKeepsOrderExtremesAndGaps) {
  std::vector<CurvePoint> points;
  for (int i = 0; i < 10000; ++i) points.push_back({double(i), double(i), std::sin(i / 500.0)});
  points[3333].value = 50;
  points[7777].value = -50;
  points[5000].value = NAN;
  const auto thinned = thin(points, 200);
  EXPECT_LE(thinned.size(), 200u);
  EXPECT_GE(thinned.size(), 150u);
  EXPECT_TRUE(std::ranges::is_sorted(thinned, {}, &CurvePoint::step));
  const auto has = [&](double step) {
    return std::ranges::count(thinned, step, &CurvePoint::step) == 1;
  };
  EXPECT_TRUE(has(3333));
  EXPECT_TRUE(has(7777));
  EXPECT_TRUE(has(5000));
  EXPECT_EQ(thin(points, 20000).size(), points.size());
}

TEST(Report, LayersAreMapsOfTheirSteps) {
  ScratchDirectory scratch;
  write(scratch / "metrics.jsonl",
        "{\"step\": 2, \"pairing/b\": 1.5, \"weight_norm/b\": 1, \"pairing/a\": 0.5}\n"
        "{\"step\": 3, \"full_gap\": 4}\n"
        "{\"step\": 4, \"pairing/b\": 2, \"pairing/a\": \"NaN\"}\n"
        "{\"step\": 6, \"pairing/b\": 3, \"pairing/c\": 7}\n");
  const RunData run = read_run(scratch.path());
  ASSERT_EQ(run.layers.size(), 2u);
  const LayerMap& map = run.layers.at("pairing");
  EXPECT_EQ(map.layers, (std::vector<std::string>{"b", "a", "c"}));
  EXPECT_EQ(map.steps, (std::vector<std::int64_t>{2, 4, 6}));
  EXPECT_EQ(map.values[0], (std::vector<double>{1.5, 2, 3}));
  EXPECT_EQ(map.values[1][0], 0.5);
  EXPECT_TRUE(std::isnan(map.values[1][1]) && std::isnan(map.values[1][2]));
  EXPECT_TRUE(std::isnan(map.values[2][0]) && std::isnan(map.values[2][1]));
  EXPECT_EQ(map.values[2][2], 7);
  EXPECT_EQ(run.curves.at("full_gap").at(0).value, 4);
  const auto page = embedded(report_page(std::vector<RunData>{run}));
  EXPECT_EQ(page[0]["layers"]["pairing"]["value"][1], nlohmann::json::parse("[0.5, null, null]"));

  std::vector<run::MetricsLine> many;
  for (std::int64_t k = 0; k < 1000; ++k) {
    many.push_back({.step = k, .values = {{"pairing/a", static_cast<double>(k)}}});
  }
  const auto few = layer_maps(many, 10).at("pairing");
  EXPECT_EQ(few.steps.size(), 10u);
  EXPECT_EQ(few.values[0][3], static_cast<double>(few.steps[3]));
}

TEST(Report, PageHoldsTheDataAndNamesCannotBreakIt) {
  RunData run;
  run.name = "</script><script>alert(1)</script> & \"ü\"";
  run.steps = 3;
  run.curves["loss"] = {{1, 0.5, 2.25}, {2, NAN, NAN}};
  std::vector<RunData> runs = {run, run};
  runs[1].name += " (2)";
  const auto page = report_page(runs);
  const auto data = embedded(page);
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0]["name"], run.name);
  EXPECT_EQ(data[1]["name"], run.name + " (2)");
  EXPECT_EQ(data[0]["curves"]["loss"]["value"], nlohmann::json::parse("[2.25, null]"));
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  // Self-contained: nothing is loaded from elsewhere.
  for (const char* loads : {" src=", "<link", "@import", "url("}) {
    EXPECT_EQ(page.find(loads), std::string::npos) << loads;
  }
}

}  // namespace
}  // namespace normball::trainer::report
