#include <cmath>
#include <fstream>
#include <iomanip>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "testing.h"
#include "tests/trainer/run_testing.h"
#include "trainer/config/config.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/config_method.h"
#include "trainer/config/config_use.h"
#include "trainer/config/presets.h"

namespace normball::trainer::config {
namespace {

using testing::expect_invalid;
using testing::ScratchDirectory;

Config parsed(const std::string& text) {
  Config config;
  apply_toml(config, text, "test.toml");
  return config;
}

void expect_refused(const std::string& text, const std::vector<std::string>& parts) {
  expect_invalid([&] { parsed(text); }, parts);
}

TEST(Config, ReadsEveryType) {
  const auto config = parsed(R"toml(
[run]
steps = 1_000
keep_best = false
name = "a \"b\""
[model]
hidden = [64, 32]
[optimizer]
lr = 1          # an integer is a number
rho = 1e3
betas = [0.8, 0.9]
[norm]
route = [{ pattern = "head.*", norm = "sign(unit)", radius = 3 }, { pattern = "x?", radius = 0.5 }]
)toml");
  EXPECT_EQ(config.run.steps, 1000);
  EXPECT_FALSE(config.run.keep_best);
  EXPECT_EQ(config.run.name, "a \"b\"");
  EXPECT_EQ(config.model.hidden, (std::vector<std::int64_t>{64, 32}));
  EXPECT_EQ(config.optimizer.lr, 1);
  EXPECT_EQ(config.optimizer.rho, 1000);
  EXPECT_EQ(config.optimizer.betas, (std::vector<double>{0.8, 0.9}));
  ASSERT_EQ(config.norm.route.size(), 2u);
  EXPECT_EQ(config.norm.route[0], (Route{"head.*", "sign(unit)", 3}));
  EXPECT_EQ(config.norm.route[1], (Route{"x?", {}, 0.5}));
  EXPECT_EQ(config.train.batch, Config().train.batch);  // what is not named keeps its default
}

TEST(Config, RoutesAsArrayOfTables) {
  const auto config = parsed("[[norm.route]]\npattern = \"a\"\nradius = 2\n");
  EXPECT_EQ(config.norm.route, (std::vector<Route>{{"a", {}, 2}}));
}

TEST(Config, ErrorsNameFileLineKeyValueAndRemedy) {
  expect_refused("[run]\nstpes = 3\n",
                 {"[config] test.toml:2: in [run]: unknown key 'stpes'", "did you mean 'steps'?"});
  expect_refused("[run]\n\nlr = 3\n", {"test.toml:3", "did you mean 'optimizer.lr'?"});
  expect_refused("[optimiser]\nlr = 3\n", {"test.toml:1", "did you mean 'optimizer'?"});
  expect_refused("steps = 3\n", {"test.toml:1", "unknown section 'steps'"});
  expect_refused("run = 3\n", {"test.toml:1", "must be a section [run]"});
  expect_refused("[run]\nsteps = 1.5\n", {"test.toml:2: run.steps must be an integer, got 1.5"});
  expect_refused("[run]\nsteps = -1\n", {"test.toml:2: run.steps must be in [0, 1e+12], got -1"});
  expect_refused("[run]\nkeep_best = 1\n", {"run.keep_best must be true or false, got 1"});
  expect_refused("[run]\nname = 7\n", {"run.name must be a string in quotes, got 7"});
  expect_refused("[optimizer]\nalpha = 0\n", {"optimizer.alpha must be in (0, 1], got 0"});
  expect_refused("[optimizer]\nlr = nan\n", {"optimizer.lr must be a finite number, got nan"});
  expect_refused("[optimizer]\nlr = inf\n", {"optimizer.lr must be a finite number, got inf"});
  expect_refused("[optimizer]\nlr = 1e31\n", {"optimizer.lr must be in [0, 1e+30], got 1e+31"});
  expect_refused("[optimizer]\nmethod = \"clip_scion\"\n",
                 {"test.toml:2: optimizer.method: unknown value 'clip_scion'",
                  "did you mean 'clipped_scion'?"});
  expect_refused("[optimizer]\nsolver = \"moun\"\n",
                 {"optimizer.solver = \"moun\"", "did you mean 'muon'?"});
  expect_refused("[norm]\nhidden = \"spektral\"\n",
                 {"test.toml:2: norm.hidden = \"spektral\"", "did you mean 'spectral'"});
  expect_refused("[norm]\nroute = [{pattern=\"a\", norm=\"spektral\"}]\n",
                 {"did you mean 'spectral'"});
  expect_refused("[norm]\nroute = [{radius=-2.0, pattern=\"a\"}]\n",
                 {"norm.route: the radius of 'a' must be in", "got -2"});
  expect_refused("[norm]\nroute = [{pattern=\"a\"}]\n", {"a norm or a radius"});
  expect_refused("[norm]\nroute = [{pattern=\"a\", radios=1}]\n", {"did you mean 'radius'"});
  expect_refused("[model]\nhidden = [1, \"2\"]\n", {"model.hidden must be an integer, got"});
  expect_refused("[model]\nhidden = 3\n", {"model.hidden must be a list in [ ], got 3"});
  expect_refused("[run]\nsteps = \n", {"test.toml:2"});
  expect_refused("[run]\nsteps = 1\nsteps = 2\n", {"test.toml:3"});
}

TEST(Config, SettingsComeAfterTheFile) {
  Config config = parsed("[run]\nsteps = 5\n[optimizer]\nlr = 0.1\n");
  for (const char* setting :
       {"run.steps=7", "optimizer.lr=1e-4", "run.name=a b=c", "run.dir=\"quo\\\"ted\"",
        "model.hidden=[3, 4]", "run.keep_best=false", "norm.hidden=spectral(solver=muon)"}) {
    apply_setting(config, setting);
  }
  EXPECT_EQ(config.run.steps, 7);
  EXPECT_EQ(config.optimizer.lr, 1e-4);
  EXPECT_EQ(config.run.name, "a b=c");
  EXPECT_EQ(config.run.dir, "quo\"ted");
  EXPECT_EQ(config.model.hidden, (std::vector<std::int64_t>{3, 4}));
  EXPECT_FALSE(config.run.keep_best);
  const auto refused = [&](const char* setting, const std::vector<std::string>& parts) {
    expect_invalid([&] { apply_setting(config, setting); }, parts);
  };
  refused("run.stpes=3", {"--set run.stpes=3", "did you mean 'steps'?"});
  refused("runn.steps=3", {"did you mean 'run'?"});
  refused("steps=3", {"expected section.key=value"});
  refused("run.steps", {"expected section.key=value"});
  refused("run.steps=abc", {"--set run.steps=abc"});
  refused("run.steps=", {"--set run.steps="});
  refused("run.steps=1\nx = 2", {"one line"});
  refused("run.nonfinite=ignore", {"unknown value 'ignore'", "stop or skip"});
  EXPECT_EQ(config.run.steps, 7);
}

TEST(Config, ResolvedTextReadsBackAsItself) {
  Config config;
  config.run.name = "tab\t, quote\", back\\slash, ünicode, \x01";
  config.optimizer.rho = 1.0 / 3;
  config.optimizer.lr = 5;
  config.norm.route = {{"a*", "sign", {}}, {"b\"", {}, 1e-30}, {"c", "rms", 2}};
  config.model.hidden = {};
  const auto text = to_toml(config);
  EXPECT_EQ(to_toml(parsed(text)), text);
  EXPECT_EQ(parsed(text).run.name, config.run.name);
  EXPECT_EQ(parsed(text).optimizer.rho, config.optimizer.rho);
  EXPECT_EQ(parsed(text).norm.route, config.norm.route);
}

TEST(Config, KeysThatMustFitTogether) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_invalid([&] { validate(parsed(text), "test.toml"); }, parts);
  };
  const std::string run = "[run]\nsteps = 10\n", rho = "[optimizer]\nrho = 1\n";
  validate(parsed(run + rho), "test.toml");
  refused(rho, {"run.steps", "run.epochs"});
  refused("[run]\nsteps = 1\nepochs = 1\n" + rho, {"run.steps", "run.epochs"});
  refused(run, {"[optimizer]", "rho"});  // a clipped method needs it
  refused(run + "[train]\nbatch = 10\nmicro_batch = 3\n" + rho,
          {"train.batch = 10", "micro_batch = 3"});
  refused(run + "[model]\nkind = \"gpt\"\n" + rho, {"model.kind", "data.kind"});
  for (const auto& [kind, pixels] : {std::pair("fashion-mnist", 28), {"cifar10", 32}}) {
    const auto images = [&, kind = kind](int shift) {
      return run + rho + "[model]\nkind = \"cnn\"\n[data]\nkind = \"" + kind +
             "\"\ntranslate = " + std::to_string(shift) + "\n";
    };
    validate(parsed(images(pixels - 1)), "test.toml");
    if (pixels > 31) continue;  // the key's own limit
    refused(images(pixels), {"data.translate = 28 must be below 28", "fashion-mnist"});
  }
  refused(run + rho + "[model]\nkind = \"gpt\"\n[data]\nkind = \"text\"\n", {"data.path"});
  refused(run + "[model]\nhidden = [8]\n[optimizer]\nmethod = \"muon\"\n",
          {"muon", "model.hidden"});
  refused(run + rho + "[model]\nkind = \"gpt\"\nwidth = 100\nheads = 3\n[data]\nkind = \"text\"\n",
          {"model.width = 100", "model.heads = 3"});
  refused(run + "[optimizer]\nmethod = \"scion\"\nlr = 2\n", {"[optimizer]", "gamma eta <= 1"});
  refused(run + "[optimizer]\nmethod = \"adam\"\nbetas = [0.9]\n", {"optimizer.betas"});
  refused(run + rho + "[schedule]\nkind = \"warmdown\"\nwarmup = 0.5\ndecay = 0.6\n",
          {"schedule.warmup + schedule.decay"});
  refused(run + rho + "[schedule]\nkind = \"cosine\"\nend = 1\n", {"schedule.end = 1"});
}

TEST(Config, NamesArePlain) {
  for (const std::string name :
       {"", ".", "..", ".hid", "-", "--", "-x", "a/b", "/", "a\nb", "\x7f"}) {
    expect_invalid([&] { validate_name(name, "mine.toml"); },
                   {"mine.toml", "plain name", "got \""});
  }
  expect_invalid([&] { validate_name(std::string(201, 'a'), "--name"); }, {"--name", "1 to 200"});
  for (const std::string name : {"a", "a.b", "a-b", "lr=0.1, seed 3", "größe", "_"}) {
    EXPECT_NO_THROW(validate_name(name, "any")) << name;
  }
  validate_name(std::string(200, 'a'), "any");
}

// The program tells a wrong command line from a wrong file by the type.
TEST(Config, FaultsOfTheCommandLineAreSettingErrors) {
  const testing::ScratchDirectory scratch;
  const std::string file = scratch / "mine.toml",
                    right = "[run]\nsteps = 1\n[optimizer]\nrho = 1\n";
  const auto load = [&](const std::string& text, const std::vector<std::string>& settings) {
    testing::write(file, text);
    load_config(file, settings);
  };
  const auto blames_settings = [&](const std::string& text,
                                   const std::vector<std::string>& settings) {
    try {
      load(text, settings);
    } catch (const SettingError&) {
      return true;
    } catch (const std::invalid_argument&) {
      return false;
    }
    ADD_FAILURE() << "no error";
    return false;
  };
  EXPECT_NO_THROW(load(right, {"run.steps=2"}));
  for (const std::string setting :
       {"run.steps=x", "run.steps=", "run.steps=[1", "run.stpes=1", "run",
        "optimizer.betas=[0.9, 0.9]", "run.steps=0", "run.name=a/b"}) {
    EXPECT_TRUE(blames_settings(right, {setting})) << setting;
  }
  EXPECT_FALSE(blames_settings("[run]\nsteps = 0\n", {}));
  EXPECT_FALSE(blames_settings("[run]\nsteps = 0\n", {"run.seed=1"}));  // wrong without it as well
  EXPECT_FALSE(blames_settings("[run\n", {"run.seed=1"}));
  // Of several settings those are named that do not fit together.
  const std::vector<std::string> many = {"run.seed=1", "train.batch=10", "eval.batches=3",
                                         "train.micro_batch=3", "run.log_every=5"};
  try {
    load(right, many);
    ADD_FAILURE() << "no error";
  } catch (const SettingError& error) {
    EXPECT_TRUE(std::string_view(error.what())
                    .starts_with("[config] --set train.batch=10 --set train.micro_batch=3: "
                                 "train.batch = 10 must be"))
        << error.what();
  }
  expect_invalid(
      [&] {
        load(right, {"run.seed=1", "optimizer.method=s3cg"});
      },
      {"[config] --set optimizer.method=s3cg: [optimizer]", "beta"});
}

// Every key, one by one: changing it forbids to resume exactly if the table says so.
TEST(Config, ResumingFollowsTheTable) {
  const Config base;
  const auto changed = [](Config config, const Key& key) {
    std::visit(
        [&](auto place) {
          auto& value = place(config);
          using T = std::remove_reference_t<decltype(value)>;
          if constexpr (std::is_same_v<T, bool>) value = !value;
          if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, double>) value += 1;
          if constexpr (std::is_same_v<T, std::optional<double>> ||
                        std::is_same_v<T, std::optional<NumberOrAuto>>) {
            value = 17;
          }
          if constexpr (std::is_same_v<T, std::string>) value += "x";
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>> ||
                        std::is_same_v<T, std::vector<double>>) {
            value.push_back(9);
          }
          if constexpr (std::is_same_v<T, std::vector<Route>>) value.push_back({"p", "rms", 1});
        },
        key.place);
    return config;
  };
  for (const Key& key : config_keys()) {
    if (key.full_name() == "run.steps" || key.full_name() == "run.epochs") continue;
    const Config other = changed(base, key);
    const bool same = key.on_resume == OnResume::Same;
    const bool used = why_unused(key, base).empty() && why_unused(key, other).empty();
    EXPECT_EQ(resume_conflicts(base, other).size(), same && used ? 1u : 0u) << key.full_name();
  }
}

TEST(Config, ResultsAreComparableWhereNothingWasMeasuredOtherwise) {
  const Config before;
  const auto conflicts = [&](auto change) {
    Config now;
    change(now);
    return result_conflicts(before, now).size();
  };
  EXPECT_EQ(conflicts([](Config& c) { c.data.path = "elsewhere"; }), 1u);
  EXPECT_EQ(conflicts([](Config& c) { c.eval.batches = 3; }), 1u);
  EXPECT_EQ(conflicts([](Config& c) { c.run.log_every = 3; }), 1u);
  EXPECT_EQ(conflicts([](Config& c) { c.optimizer.lr = 3; }), 1u);
  EXPECT_EQ(conflicts([](Config& c) { c.run.dir = "elsewhere"; }), 0u);
  EXPECT_EQ(conflicts([](Config& c) { c.run.steps = 3; }), 0u);
  Config relative, absolute;
  relative.data.path = "text.txt";
  absolute.data.path = std::filesystem::absolute("text.txt").string();
  EXPECT_TRUE(result_conflicts(relative, absolute).empty());
}

TEST(Config, MoreStepsMayFollowUnlessTheScheduleDependsOnThem) {
  Config before, now;
  before.run.steps = 100;
  now.run.steps = 200;
  EXPECT_TRUE(resume_conflicts(before, now).empty());
  before.schedule.kind = now.schedule.kind = "linear";
  EXPECT_EQ(resume_conflicts(before, now),
            (std::vector<std::string>{"run.steps: 100 before, 200 now"}));
  before.schedule.kind = now.schedule.kind = "power";
  EXPECT_TRUE(resume_conflicts(before, now).empty());
  before.schedule.warmup = now.schedule.warmup = 0.1;
  EXPECT_EQ(resume_conflicts(before, now).size(), 1);
}

// Every number: what the limits allow at their ends is read, what is beyond them or not a number is
// refused.
TEST(Config, NumbersHaveLimits) {
  int numbers = 0;
  for (const Key& key : config_keys()) {
    const bool integer = std::holds_alternative<At<std::int64_t>>(key.place);
    const bool number = integer || std::holds_alternative<At<double>>(key.place) ||
                        std::holds_alternative<At<std::optional<double>>>(key.place) ||
                        std::holds_alternative<At<std::optional<NumberOrAuto>>>(key.place);
    if (!number) continue;
    ++numbers;
    SCOPED_TRACE(key.full_name());
    EXPECT_TRUE(std::isfinite(key.range.low));
    const auto set = [&](const std::string& value) {
      Config config;
      apply_setting(config, key.full_name() + "=" + value);
    };
    for (const char* bad :
         {"nan", "inf", "-inf", "1e999", "true", "'1'", "[1]", "", "-1e-9", "1e31"}) {
      EXPECT_THROW(set(bad), std::invalid_argument) << bad;
    }
    if (std::isfinite(key.range.high) && !key.range.high_open) {
      std::ostringstream high;
      high << std::fixed << std::setprecision(integer ? 0 : 3) << key.range.high;
      EXPECT_NO_THROW(set(high.str())) << high.str();
    }
  }
  EXPECT_GT(numbers, 40);
}

TEST(Config, KeysWithoutEffectAreRefusedWhereTheUserGaveThem) {
  ScratchDirectory scratch;
  const auto load = [&](const std::string& text, const std::vector<std::string>& settings = {}) {
    testing::write(scratch / "mine.toml", text);
    std::vector<std::string> warnings;
    load_config((scratch / "mine.toml").string(), settings, &warnings);
    return warnings;
  };
  const std::string clipped = "[run]\nsteps = 5\n[optimizer]\nrho = 2.0\nalpha = 0.5\n";
  EXPECT_TRUE(load(clipped).empty());
  // The file itself.
  expect_invalid(
      [&] { load(clipped + "method = \"gd\"\n"); },
      {"mine.toml:5: optimizer.alpha has no effect: optimizer.method is gd; used by: ggnc"});
  expect_invalid([&] { load(clipped + "[sample]\nlength = 3\n"); },
                 {"mine.toml:7", "sample.length has no effect: model.kind is mlp; used by: gpt"});
  // A default says nothing, so a list of all keys stays readable.
  EXPECT_TRUE(load(clipped + "eps = 1e-8\n[sample]\nlength = 200\n").empty());
  // Another method on top of the file.
  EXPECT_EQ(load(clipped, {"optimizer.method=gd"}),
            (std::vector<std::string>{
                "no effect any more: optimizer.alpha, optimizer.rho (optimizer.method is gd)"}));
  EXPECT_TRUE(load(clipped, {"optimizer.method=ggnc"}).empty());
  expect_invalid(
      [&] {
        load(clipped, {"optimizer.alpha=0.3", "optimizer.method=gd"});
      },
      {"--set optimizer.alpha=0.3: optimizer.alpha has no effect"});
  expect_invalid(
      [&] {
        load(clipped, {"optimizer.method=gd", "optimizer.alpha=0.1"});
      },
      {"--set optimizer.alpha=0.1: optimizer.alpha has no effect"});
  // What the settings give an effect to is not held against the file.
  EXPECT_TRUE(load("[run]\nsteps = 5\n[optimizer]\nmethod = \"gd\"\nalpha = 0.5\n",
                   {"optimizer.method=scion"})
                  .empty());
}

TEST(Config, WhatHasNoEffectIsNeitherKeptNorWritten) {
  ScratchDirectory scratch;
  testing::write(scratch / "mine.toml",
                 "[run]\nsteps = 5\n[optimizer]\nrho = 2.0\n[norm]\nhidden_radius = 5\n[model]\n"
                 "hidden = [8, 8]\n");
  const std::vector<std::string> settings = {"optimizer.method=gd"};
  const auto config = load_config((scratch / "mine.toml").string(), settings);
  EXPECT_EQ(config.optimizer.rho, std::nullopt);
  EXPECT_EQ(config.norm.hidden_radius, Config().norm.hidden_radius);
  const auto text = to_toml(config);
  for (const char* key : {"rho", "hidden_radius", "alpha", "rope_base", "length", "betas"}) {
    EXPECT_EQ(text.find(std::string("\n") + key + " ="), std::string::npos) << key;
  }
  EXPECT_EQ(to_toml(parsed(text)), text);
}

TEST(Config, ATrainedModelKeepsItsConfiguration) {
  ScratchDirectory scratch;
  auto config = load_config("shakespeare-cpu-unconstrained-scion");
  testing::write(scratch / "config.toml", to_toml(config));
  const auto stored = [&](const std::vector<std::string>& settings, const char* command) {
    return stored_config(scratch.path(), settings, command);
  };
  EXPECT_TRUE(resume_conflicts(config, stored({}, "eval")).empty());
  EXPECT_EQ(stored({"eval.batches=3", "data.path=x", "run.threads=2"}, "eval").eval.batches, 3);
  EXPECT_EQ(stored({"sample.length=7"}, "sample").sample.length, 7);
  for (const char* setting :
       {"model.heads=2", "model.rope_base=100", "optimizer.lr=1", "run.steps=7", "sample.every=3",
        "data.kind=shards", "train.batch=3"}) {
    for (const char* command : {"eval", "sample"}) {
      expect_invalid([&] { stored({setting}, command); },
                     {setting, "the model is trained", command});
    }
  }
  expect_invalid([&] { stored({"sample.length=7"}, "eval"); }, {"sample.length", "eval.batches"});
  expect_invalid([&] { stored({"eval.batches=7"}, "sample"); }, {"sample.length"});
  expect_invalid([&] { stored({"eval.tta=1"}, "eval"); }, {"eval.tta has no effect", "cnn"});
  // What an earlier version wrote: all keys, with values that had no effect.
  testing::write(scratch / "config.toml",
                 std::regex_replace(to_toml(config), std::regex("\\[eval\\]"), "[eval]\ntta = 2"));
  EXPECT_TRUE(resume_conflicts(config, stored({}, "eval")).empty());
}

// The core is asked which of its options change a method.
TEST(ConfigUse, AgreesWithTheCoreOnWhatMethodsRead) {
  const auto described = [](const std::string& name, const MethodOptions& options) {
    const Method method = make_method(name, options);
    std::ostringstream text;
    text << to_string(method.rule) << ' ' << method.lr << ' ' << method.alpha << ' '
         << method.radius.value_or(0);
    return text.str();
  };
  const MethodOptions base{.lr = 0.5, .alpha = 0.5, .rho = 3, .beta = 2, .l0 = 1, .l1 = 1};
  std::map<std::string, MethodOptions> changes;
  for (const char* name : {"lr", "alpha", "rho", "beta", "l0", "l1", "short_step"})
    changes[name] = base;
  changes["lr"].lr = 0.25;
  changes["alpha"].alpha = 0.25;
  changes["rho"].rho = 4;
  changes["beta"].beta = 3;
  changes["l0"].l0 = 2;
  changes["l1"].l1 = 2;
  changes["short_step"].short_step = ShortStepForm::ByDiameter;
  for (const auto name : method_names()) {
    Config config;
    config.optimizer.method = name;
    for (const Key& key : config_keys()) {
      const auto change = changes.find(std::string(key.name));
      if (key.section != "optimizer" || change == changes.end()) continue;
      EXPECT_EQ(described(std::string(name), change->second) != described(std::string(name), base),
                why_unused(key, config).empty())
          << name << ' ' << key.name;
    }
  }
}

TEST(ConfigUse, AgreesWithTheCoreOnWhichMethodsTakeAStepsize) {
  const auto keys = config_keys();
  const auto key = std::ranges::find(keys, std::string_view("stepsize"), &Key::name);
  for (const auto name : method_names()) {
    Config config;
    config.optimizer.method = name;
    EXPECT_EQ(takes_stepsize(name), why_unused(*key, config).empty()) << name;
  }
}

TEST(Config, AStepsizeReplacesTheRule) {
  const auto method_of = [](const std::vector<std::string>& settings) {
    Config config;
    for (const auto& setting : settings) apply_setting(config, setting);
    config.run.steps = 10;
    validate(config, "test");
    const Config again = parsed(to_toml(config));
    EXPECT_EQ(again.optimizer.rho, config.optimizer.rho);
    EXPECT_EQ(again.optimizer.stepsize, config.optimizer.stepsize);
    return core_method(config, 10);
  };
  const std::string scion = "optimizer.method=unconstrained_scion";
  EXPECT_EQ(method_of({scion, "optimizer.stepsize=momo(f_star=0.5)"}).rule, StepRule(Momo{0.5}));
  EXPECT_EQ(method_of({scion}).rule, StepRule(Normalized{}));
  // No lr, and the schedule is that of 1.
  const Method distance = method_of(
      {scion, "optimizer.stepsize=distance_aware", "optimizer.lr=0.5", "schedule.kind=linear"});
  EXPECT_EQ(distance.rule, StepRule(DistanceAware{}));
  EXPECT_EQ(distance.lr.value, 1);
  for (const auto& [clipped, plain] : {std::pair("clipped_gd", "normalized_gd"),
                                       {"clipped_lars", "lars"},
                                       {"clipped_scion", "scion"},
                                       {"unconstrained_clipped_scion", "unconstrained_scion"}}) {
    const Method method =
        method_of({std::string("optimizer.method=") + clipped, "optimizer.rho=auto"});
    EXPECT_EQ(method.rule, StepRule(AutoClipped{}));
    EXPECT_EQ(method.name, plain);
  }
  const auto refused = [&](const std::vector<std::string>& settings,
                           const std::vector<std::string>& parts) {
    expect_invalid([&] { method_of(settings); }, parts);
  };
  refused({"optimizer.method=ggnc", "optimizer.rho=auto"}, {"auto", "ggnc", "clipped_scion"});
  refused({scion, "optimizer.stepsize=adagard"}, {"optimizer.stepsize", "adagrad"});
  refused({scion, "optimizer.stepsize=clipped(rho=1)"},
          {"optimizer.stepsize", "leave stepsize out", "distance_aware"});
  refused({"optimizer.rho=automatic"}, {"a number or \"auto\"", "automatic"});
  refused({"optimizer.method=scion", "optimizer.stepsize=distance_aware"},
          {"distance_aware can reach inf", "ball"});
  refused({scion, "optimizer.stepsize=distance_aware", "schedule.kind=cosine", "schedule.end=2"},
          {"the first lr = 1"});
  // What has no effect is refused where it is given.
  const auto load = [&](const std::vector<std::string>& settings) {
    load_config("demo-unconstrained-scion", settings);
  };
  load({"optimizer.stepsize=adagrad"});
  expect_invalid(
      [&] {
        load({"optimizer.stepsize=distance_aware", "optimizer.lr=1"});
      },
      {"optimizer.lr", "distance_aware"});
  expect_invalid(
      [&] {
        load({"optimizer.method=ggnc", "optimizer.rho=1", "optimizer.stepsize=momo"});
      },
      {"optimizer.stepsize", "ggnc"});
}

TEST(ConfigUse, EveryRowNamesKeysModelsDataAndMethodsThatExist) {
  const auto expect_known = [](std::string_view list, std::string_view section,
                               std::string_view name) {
    const auto& choices = std::ranges::find_if(config_keys(), [&](const Key& key) {
                            return key.section == section && key.name == name;
                          })->choices;
    std::istringstream words(std::string(list.starts_with("all but ") ? list.substr(8) : list));
    for (std::string word; std::getline(words >> std::ws, word, ',');) {
      EXPECT_NE(std::ranges::find(choices, word), choices.end()) << word;
    }
  };
  int limited = 0;
  for (const Key& key : config_keys()) {
    const Use use = use_of(key);
    SCOPED_TRACE(key.full_name());
    expect_known(use.models, "model", "kind");
    expect_known(use.data, "data", "kind");
    expect_known(use.methods, "optimizer", "method");
    limited += use.text().empty() ? 0 : 1;
  }
  EXPECT_GT(limited, 40);
  for (const char* command : {"eval", "sample"}) {
    std::istringstream words{std::string(keys_after_training(command))};
    for (std::string word; std::getline(words >> std::ws, word, ',');) {
      EXPECT_NE(std::ranges::find(config_keys(), word, &Key::full_name), config_keys().end())
          << word;
    }
  }
}

TEST(Config, TableIsWhole) {
  std::set<std::string> names;
  for (const Key& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.full_name()).second) << key.full_name();
    EXPECT_FALSE(key.help.empty()) << key.full_name();
    EXPECT_EQ(key.help.find('|'), std::string_view::npos) << key.full_name();
  }
  // A default that its own limits refuse would make the resolved configuration unreadable.
  EXPECT_EQ(to_toml(parsed(to_toml(Config()))), to_toml(Config()));
}

// 5100 steps with 28.5 %: constant, then linear to 0, as the paper's table has it.
TEST(ConfigMethod, ScheduleOfThePaper) {
  const auto lr = lr_schedule(load_config("nanogpt-124m-unconstrained-clipped-scion-decay"), 5100);
  const std::int64_t n = 5100, m = 1453;  // 28.5 %
  for (const std::int64_t k : {0, 100, 3000, 3646, 3647, 4000, 5099}) {
    const double expected =
        k < n - m ? 0.00036 : 0.00036 * static_cast<double>(n - k) / static_cast<double>(m);
    EXPECT_DOUBLE_EQ(lr.at(k), expected) << k;
  }
  const auto adamw = lr_schedule(load_config("nanogpt-124m-adamw"), 5100);
  EXPECT_DOUBLE_EQ(adamw.at(0), 0.0018 / 255);  // 5 % of the steps
  EXPECT_DOUBLE_EQ(adamw.at(254), 0.0018);
  EXPECT_DOUBLE_EQ(adamw.at(5099), 0.0018);
  const auto linear = lr_schedule(load_config("cifar10-unconstrained-scion-decay"), 2000);
  EXPECT_DOUBLE_EQ(linear.at(500), 0.5 * 0.75);
}

// lr = gamma rho with the exponents of the two; steps count from 0 here.
TEST(ConfigMethod, PowersOfTheStep) {
  const std::vector<std::string> settings = {"schedule.kind=power", "optimizer.lr=0.5",
                                             "optimizer.alpha_schedule=power(1, exponent=0.5)",
                                             "optimizer.rho_schedule=power(8, exponent=0.25)"};
  const auto config = load_config("demo-unconstrained-clipped-scion", settings);
  for (const std::int64_t steps : {10, 1000}) {
    const auto lr = lr_schedule(config, steps);
    EXPECT_EQ(lr.at(0), 0.5);
    EXPECT_DOUBLE_EQ(lr.at(15), 0.5 / 8);  // 16^(3/4)
    EXPECT_DOUBLE_EQ(alpha_schedule(config.optimizer).at(15), 0.25);
    EXPECT_DOUBLE_EQ(rho_schedule(config.optimizer)->at(15), 4);
  }
  EXPECT_EQ(core_method(config, 10).alpha, Schedule(1, Power{0.5}));
  EXPECT_EQ(std::get<Clipped>(core_method(config, 10).rule).rho, 8);
}

TEST(Config, ASchedulesValueTakesThePlaceOfTheNumber) {
  const auto load = [](const std::vector<std::string>& settings,
                       std::vector<std::string>* warnings = nullptr) {
    return load_config("demo-unconstrained-clipped-scion", settings, warnings);
  };
  std::vector<std::string> warnings;
  const auto config = load({"optimizer.rho_schedule=linear(3, steps=100)"}, &warnings);
  EXPECT_FALSE(config.optimizer.rho.has_value());
  EXPECT_EQ(parsed(to_toml(config)).optimizer.rho_schedule, "linear(3, steps=100)");
  ASSERT_EQ(warnings.size(), 1);  // the preset's rho
  EXPECT_NE(warnings[0].find("optimizer.rho"), std::string::npos) << warnings[0];
  const auto refused = [&](const std::vector<std::string>& settings,
                           const std::vector<std::string>& parts) {
    expect_invalid([&] { load(settings); }, parts);
  };
  refused({"optimizer.rho_schedule=linear(3, steps=100)", "optimizer.rho=3"},
          {"optimizer.rho has no effect", "optimizer.rho_schedule is none"});
  refused({"optimizer.alpha_schedule=0.5", "optimizer.alpha=0.5"},
          {"optimizer.alpha has no effect"});
  refused({"optimizer.alpha_schedule=linear(2, steps=100)"}, {"alpha must be in (0, 1]"});
  refused({"optimizer.rho_schedule=linear(-2, steps=100)"}, {"rho", "-2"});
  refused({"optimizer.rho_schedule=linaer(2, steps=100)"},
          {"optimizer.rho_schedule", "did you mean 'linear'"});
  refused({"optimizer.method=unconstrained_scion", "optimizer.rho_schedule=linear(2, steps=9)"},
          {"optimizer.rho_schedule has no effect"});
  refused({"schedule.exponent=0.5"}, {"schedule.exponent has no effect", "schedule.kind is power"});
  // Whether they stay above 0 depends on how long the run is.
  require_positive_schedules(config, 100);
  expect_invalid([&] { require_positive_schedules(config, 101); },
                 {"optimizer.rho_schedule = linear(3, steps=100)", "all 101 steps"});
}

TEST(ConfigMethod, MethodHasTheConfiguredNumbers) {
  const auto method = core_method(load_config("cifar10-clipped-scion"), 2000);
  EXPECT_TRUE(method.constrained);
  EXPECT_EQ(std::get<Clipped>(method.rule).rho, 12800);
  EXPECT_EQ(method.lr.value, 1.0 / 256);
  EXPECT_EQ(method.alpha.value, 0.5);
  EXPECT_TRUE(is_core_method("ggnc"));
  EXPECT_FALSE(is_core_method("adamw"));
}

TEST(ConfigMethod, NormSectionIsRoutingOptions) {
  Config config;
  config.optimizer.rho = 5;
  config.optimizer.solver = "muon";
  config.model.kind = "cnn";
  config.norm.hidden_radius = 50;
  config.norm.output_radius = 7;
  config.norm.embedding_radius = 9;
  config.norm.route = {{"blocks.0.*", {}, 25.0}, {"blocks.*.proj", "spectral(solver=svd)", {}}};
  const RoutingOptions options = routing_options(config);
  EXPECT_EQ(options.norms.hidden, parse_norm("spectral(solver=muon)"));
  EXPECT_EQ(options.norms.bias, Norm(Rms{}));
  EXPECT_EQ(options.norms.output, Norm(Sign{}));
  EXPECT_EQ(options.radii.hidden, 50);
  EXPECT_EQ(options.radii.output, 7);
  ASSERT_EQ(options.rules.size(), 2U);
  EXPECT_EQ(options.rules[0], (RoutingRule{"blocks.0.*", {.radius = 25.0}}));
  EXPECT_EQ(options.rules[1].then.norm, parse_norm("spectral(solver=svd)"));
  config.model.kind = "gpt";  // whose output layer is its embedding
  EXPECT_EQ(routing_options(config).radii.output, 9);
  config.optimizer.method = "clipped_sign";  // which is a norm itself
  EXPECT_EQ(routing_options(config).norms, RoleNorms{});
  EXPECT_TRUE(routing_options(config).method_norm);
}

class Extending : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((scratch_ / name).parent_path());
    std::ofstream(scratch_ / name) << text;
    return (scratch_ / name).string();
  }
  void expect_refused(const std::string& path, const std::vector<std::string>& parts) {
    expect_invalid([&] { load_config(path); }, parts);
  }

 private:
  ScratchDirectory scratch_;
};

TEST_F(Extending, StatesOnlyWhatIsDifferent) {
  file("base/all.toml",
       "[run]\nsteps = 7\n[optimizer]\nmethod = \"ggnc\"\nlr = 0.5\nalpha = 0.25\nrho = 3\n");
  file("middle.toml", "extends = \"base/all\"\n[run]\nsteps = 8\n[optimizer]\nlr = 0.25\n");
  const auto top = file("top.toml", "extends = \"middle.toml\"\n[optimizer]\nlr = 0.125\n");
  const auto config = load_config(top);
  EXPECT_EQ(config.run.steps, 8);
  EXPECT_EQ(config.run.name, "top");
  EXPECT_EQ(config.optimizer.lr, 0.125);
  EXPECT_EQ(config.optimizer.rho, 3);
  EXPECT_EQ(to_toml(config).find("extends"), std::string::npos);
}

TEST_F(Extending, APresetFromAnywhere) {
  const auto mine = file("mine.toml", "extends = \"cifar10-adam\"\n[optimizer]\nlr = 0.5\n");
  auto expected = load_config("cifar10-adam", std::vector<std::string>{"optimizer.lr=0.5"});
  expected.run.name = "mine";
  EXPECT_EQ(to_toml(load_config(mine)), to_toml(expected));
}

// A base serves several methods: what one of them does not use is no mistake there, but it is in
// the file itself, and what settings take the effect from is said.
TEST_F(Extending, InheritedKeysMayBeIdle) {
  file("base.toml", "[run]\nsteps = 7\n[optimizer]\nalpha = 0.25\nrho = 3\n");
  const auto gd = file("gd.toml", "extends = \"base\"\n[optimizer]\nmethod = \"gd\"\n");
  std::vector<std::string> warnings;
  EXPECT_EQ(load_config(gd, {}, &warnings).optimizer.rho, Config().optimizer.rho);
  EXPECT_TRUE(warnings.empty());

  const auto own = file("own.toml", "extends = \"base\"\n[optimizer]\nmethod = \"gd\"\nrho = 4\n");
  expect_refused(own, {"own.toml:4", "optimizer.rho has no effect"});

  const auto ggnc = file("ggnc.toml", "extends = \"base\"\n[optimizer]\nmethod = \"ggnc\"\n");
  load_config(ggnc, std::vector<std::string>{"optimizer.method=gd"}, &warnings);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("optimizer.alpha, optimizer.rho"), std::string::npos) << warnings[0];
}

TEST_F(Extending, WhatCannotBeFollowedIsNamed) {
  expect_refused(file("a.toml", "extends = \"b\"\n"), {"a.toml:1", "\"b\"", "--list"});
  expect_refused(file("c.toml", "extends = 3\n"), {"c.toml:1", "in quotes"});
  expect_refused(file("d.toml", "extends = \"d\"\n"), {"d.toml", "in turn"});
  file("e.toml", "extends = \"f\"\n");
  expect_refused(file("f.toml", "extends = \"e\"\n"), {"e.toml", "in turn"});
  file("g.toml", "[run]\nstpes = 3\n");
  expect_refused(file("h.toml", "extends = \"g\"\n"), {"g.toml:2", "steps"});
  expect_refused(file("i.toml", "[run]\nextends = \"g\"\n"), {"i.toml:2", "unknown key"});
  expect_invalid([&] { parsed("extends = \"g\"\n"); }, {"must be complete"});
}

TEST(Presets, EachIsFoundByNameAndValid) {
  const auto all = presets();
  EXPECT_GE(all.size(), 44u);
  for (const auto& preset : all) {
    SCOPED_TRACE(preset.name);
    const auto config = load_config(preset.name);
    EXPECT_EQ(config.run.name, preset.name);
    EXPECT_FALSE(preset.summary.empty());
    EXPECT_EQ(to_toml(parsed(to_toml(config))), to_toml(config));
  }
}

// As a user tries them: what the preset brings for another method is a warning at most.
TEST(Presets, EachTakesEveryMethod) {
  const auto methods = std::ranges::find(config_keys(), "method", &Key::name)->choices;
  for (const auto& preset : presets()) {
    for (const auto method : methods) {
      Config probe;
      probe.optimizer.method = method;
      std::vector<std::string> settings = {"optimizer.method=" + std::string(method)};
      for (const char* name : {"rho", "beta", "l0", "l1"}) {
        const auto key =
            std::ranges::find(config_keys(), std::string("optimizer.") + name, &Key::full_name);
        if (why_unused(*key, probe).empty()) settings.push_back(key->full_name() + "=2");
      }
      Config config;
      ASSERT_NO_THROW(config = load_config(preset.name, settings)) << preset.name << ' ' << method;
      EXPECT_EQ(to_toml(parsed(to_toml(config))), to_toml(config)) << preset.name << ' ' << method;
      // What is written names nothing without effect: read as a user's file it is not refused.
      ScratchDirectory scratch;
      testing::write(scratch / "again.toml", to_toml(config));
      std::vector<std::string> warnings;
      ASSERT_NO_THROW(load_config((scratch / "again.toml").string(), {}, &warnings));
      EXPECT_TRUE(warnings.empty());
    }
  }
}

// Against the paper's tables, cell by cell.
TEST(Presets, HaveThePapersNumbers) {
  const auto cifar = load_config("cifar10-unconstrained-clipped-scion");
  EXPECT_EQ(cifar.run.epochs, 80);
  EXPECT_EQ(cifar.train.batch, 2000);
  EXPECT_EQ(cifar.train.loss, "sum");
  EXPECT_EQ(cifar.optimizer.lr, 0.25);
  EXPECT_EQ(cifar.optimizer.alpha, 0.5);
  EXPECT_EQ(cifar.optimizer.rho, 1600);
  EXPECT_EQ(cifar.norm.hidden_radius, 5);
  EXPECT_EQ(cifar.norm.output_radius, 200);
  EXPECT_EQ(load_config("cifar10-unconstrained-clipped-scion-decay").optimizer.lr, 0.5);
  EXPECT_EQ(load_config("cifar10-unconstrained-scion").optimizer.lr, 1.0 / 32);
  EXPECT_EQ(load_config("cifar10-unconstrained-scion-decay").schedule.kind, "linear");
  EXPECT_EQ(load_config("cifar10-scion").optimizer.lr, 1.0 / 256);
  EXPECT_EQ(load_config("cifar10-scion").norm.output_radius, 2000);
  EXPECT_EQ(load_config("cifar10-clipped-scion").optimizer.rho, 12800);
  EXPECT_EQ(load_config("cifar10-adam").optimizer.lr, 1e-3);
  EXPECT_EQ(load_config("cifar10-adam-decay").optimizer.lr, 2e-3);
  for (const std::string size : {"124m", "1b"}) {
    const auto gpt = load_config("nanogpt-" + size + "-clipped-scion-decay");
    EXPECT_EQ(gpt.run.steps, 5100);
    EXPECT_EQ(gpt.train.batch, 512);
    EXPECT_EQ(gpt.model.layers, 12);
    EXPECT_EQ(gpt.model.head_dim(), 128);
    EXPECT_EQ(gpt.model.context, 1024);
    EXPECT_EQ(gpt.model.vocab, 50304);
    EXPECT_EQ(gpt.optimizer.lr, 0.00036);
    EXPECT_EQ(gpt.optimizer.alpha, 0.1);
    EXPECT_EQ(gpt.optimizer.rho, size == "1b" ? 1500 : 150);
    EXPECT_EQ(gpt.norm.hidden_radius, 50);
    EXPECT_EQ(gpt.norm.embedding_radius, 3000);
    EXPECT_EQ(gpt.schedule.kind, "warmdown");
    EXPECT_EQ(gpt.schedule.decay, 0.285);
    const auto adamw = load_config("nanogpt-" + size + "-adamw");
    EXPECT_EQ(adamw.optimizer.lr, 0.0018);
    EXPECT_EQ(adamw.optimizer.betas, (std::vector<double>{0.9, 0.95}));
    EXPECT_EQ(adamw.schedule.warmup, 0.05);
    EXPECT_GT(adamw.optimizer.grad_clip, 0);
    EXPECT_EQ(adamw.schedule.kind, "constant");
  }
}

TEST(Presets, OwnDirectoryComesFirst) {
  ScratchDirectory scratch;
  testing::write(scratch / "cifar10-adam.toml", "# mine\n[run]\nsteps = 1\n[optimizer]\nrho = 1\n");
  ::setenv("NORMBALL_CONFIGS", scratch.path().c_str(), 1);
  EXPECT_EQ(load_config("cifar10-adam").run.steps, 1);
  ::unsetenv("NORMBALL_CONFIGS");
  EXPECT_EQ(load_config("cifar10-adam").run.epochs, 80);
  expect_invalid([] { load_config("cifar10-adma"); }, {"did you mean 'cifar10-adam'?", "--list"});
}

TEST(Config, TruncatedFilesAreReadOrRefused) {
  const auto good = testing::read(find_config("nanogpt-124m-clipped-scion-decay"));
  const auto attempt = [](const std::string& text) {
    try {
      Config config;
      apply_toml(config, text, "x.toml");
      validate(config, "x.toml");
    } catch (const std::invalid_argument& error) {
      ASSERT_EQ(std::string(error.what()).front(), '[') << error.what();
    }
  };
  for (size_t length = 0; length < good.size(); ++length) attempt(good.substr(0, length));
}

}  // namespace
}  // namespace normball::trainer::config
