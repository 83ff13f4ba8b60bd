#include "trainer/experiment/experiment.h"

#include <algorithm>

#include "normball/base/text.h"
#include "trainer/config/config_error.h"
#include "trainer/config/config_layers.h"
#include "trainer/config/table_reader.h"
#include "trainer/files/file_system.h"
#include "trainer/files/shared_directories.h"
#include "trainer/sweep/axis.h"

namespace normball::trainer::experiment {
namespace fs = std::filesystem;
namespace {

using config::TableReader;
using config::wrong;

constexpr std::uintmax_t max_file = 1 << 20;
constexpr const char* file_name = "experiment.toml";

// An arm of another experiment keeps all that made its runs.
Arm borrowed(const Experiment& here, const std::string& name, const std::string& of,
             const std::string& where) {
  const auto other = read_experiment(here.folder.parent_path() / of);
  if (other.base != here.base || other.settings != here.settings || other.metric != here.metric ||
      other.tuning_seeds != here.tuning_seeds || other.deciding_seeds != here.deciding_seeds) {
    wrong(where, "base, set, metric and seeds must be those of ", of, ", whose runs these are");
  }
  return other.arm(name);
}

Arm read_arm(TableReader& reader, const Experiment& here) {
  Arm arm{.name = reader.required_text("name"), .owner = here.name, .settings = {}, .axes = {}};
  if (const auto of = reader.text("of")) {
    reader.require_all_taken();
    return borrowed(here, arm.name, *of, reader.where());
  }
  arm.settings = reader.settings("set");
  for (auto& axis : reader.tables("axis")) arm.axes.push_back(sweep::read_axis(axis));
  arm.tuned_with = reader.settings("tuned_with");
  arm.quick = reader.settings("quick");
  reader.require_all_taken();
  return arm;
}

Window read_window(TableReader& reader, std::string_view key) {
  const auto ends = reader.ends(key, false);
  if (!ends || ends->low < 0 || ends->high > 1) {
    wrong(reader.where(), key, " = [a, b] must be two shares of the steps, from 0 to 1");
  }
  return {ends->low, ends->high};
}

Claim read_claim(TableReader& reader, const Experiment& here) {
  Claim claim{.text = reader.required_text("text"),
              .kind = parse_kind(reader.required_text("kind"), reader.where()),
              .a = reader.required_text("a")};
  const auto margin = reader.number("margin");
  if (!margin || *margin < 0) wrong(reader.where(), "margin must be a number that is not negative");
  claim.margin = *margin;
  here.arm(claim.a);
  if (claim.kind == Kind::Rises || claim.kind == Kind::Falls) {
    claim.curve = reader.required_text("curve");
    claim.early = read_window(reader, "early");
    claim.late = read_window(reader, "late");
  } else if (claim.kind == Kind::Follows) {
    claim.curve = reader.required_text("curve");
    claim.along = reader.required_text("along");
  } else {
    claim.b = reader.required_text("b");
    here.arm(claim.b);
  }
  reader.require_all_taken();
  return claim;
}

void require_fair(const Experiment& here, const std::string& where) {
  if (here.deciding_seeds.size() < least_seeds) {
    wrong(where, "seeds must be ", least_seeds, " or more: fewer decide nothing");
  }
  for (const auto seed : here.tuning_seeds) {
    if (std::ranges::find(here.deciding_seeds, seed) == here.deciding_seeds.end()) continue;
    wrong(where, "seed ", seed, " is in tuning_seeds and in seeds: what tuned must not decide");
  }
  for (const auto& arm : here.arms) {
    if (arm.tuning_points() > 1 && here.tuning_seeds.empty()) {
      wrong(where, "arm ", arm.name, " has axes, but there are no tuning_seeds");
    }
    if (arm.tuning_points() != here.arms.front().tuning_points()) {
      wrong(where, "arm ", arm.name, " is tuned over ", arm.tuning_points(), " points, arm ",
            here.arms.front().name, " over ", here.arms.front().tuning_points(),
            ": equal budgets are needed");
    }
  }
}

}  // namespace

std::vector<std::string> overridden(std::vector<std::string> settings,
                                    const std::vector<std::string>& by) {
  const auto key = [](const std::string& setting) { return setting.substr(0, setting.find('=')); };
  for (const auto& setting : by) {
    std::erase_if(settings, [&](const std::string& old) { return key(old) == key(setting); });
    settings.push_back(setting);
  }
  return settings;
}

size_t Arm::tuning_points() const {
  size_t points = 1;
  for (const auto& axis : axes) points *= axis.values.size();
  return points;
}

const Arm& Experiment::arm(std::string_view wanted) const {
  const auto found = std::ranges::find(arms, wanted, &Arm::name);
  if (found != arms.end()) return *found;
  std::vector<std::string_view> names;
  for (const auto& one : arms) names.push_back(one.name);
  wrong((folder / file_name).string(), unknown_name("arm", wanted, names));
}

Experiment read_experiment(const fs::path& given) {
  fs::path folder = fs::absolute(given).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // it ended with a slash
  const fs::path file = folder / file_name;
  const std::string where = file.string();
  TableReader reader(config::parse_toml(files::read_small_file(file, max_file), where), where,
                     where);
  Experiment here{.name = folder.filename().string(),
                  .folder = folder,
                  .title = reader.required_text("title"),
                  .question = reader.required_text("question"),
                  .statement = reader.required_text("statement"),
                  .measured = reader.required_text("measured"),
                  .base = reader.required_text("base"),
                  .settings = reader.settings("set"),
                  .metric = reader.required_text("metric"),
                  .tuning_seeds = reader.seeds("tuning_seeds"),
                  .deciding_seeds = reader.seeds("seeds"),
                  .quick_seeds = {},
                  .quick_settings = {},
                  .arms = {},
                  .claims = {}};
  here.base = sweep::base_beside(file, here.base);
  here.base = sweep::base_beside(folder, here.base);  // what several share is one folder up
  if (const auto* node = reader.take("halving")) {
    wrong(reader.place(*node),
          "early stopping (halving) is for sweeps: what decides, and what is tuned for it, runs to "
          "its end");
  }
  if (const auto* node = reader.take("quick"); node != nullptr && node->is_table()) {
    TableReader quick(*node->as_table(), reader.place(*node), where);
    here.quick_settings = quick.settings("set");
    here.quick_seeds = quick.seeds("seeds");
    quick.require_all_taken();
  }
  if (here.quick_seeds.empty()) wrong(where, "[quick] with seeds = [...] is missing");
  for (auto& arm : reader.tables("arm")) here.arms.push_back(read_arm(arm, here));
  for (auto& claim : reader.tables("claim")) here.claims.push_back(read_claim(claim, here));
  reader.require_all_taken();
  if (here.arms.empty() || here.claims.empty()) {
    wrong(where, "an experiment needs an [[arm]] and a [[claim]]");
  }
  require_fair(here, where);
  return here;
}

std::vector<fs::path> experiment_folders() {
  std::vector<fs::path> folders;
  for (const auto& room :
       files::shared_directories("NORMBALL_EXPERIMENTS", NORMBALL_EXPERIMENT_INSTALL_DIR,
                                 NORMBALL_EXPERIMENT_SOURCE_DIR)) {
    for (const auto& entry : fs::directory_iterator(room)) {
      const bool known = std::ranges::any_of(folders, [&](const fs::path& path) {
        return path.filename() == entry.path().filename();
      });
      if (!known && fs::is_regular_file(entry.path() / file_name)) folders.push_back(entry.path());
    }
  }
  std::ranges::sort(folders, {}, [](const fs::path& path) { return path.filename().string(); });
  return folders;
}

fs::path find_experiment(std::string_view name) {
  if (fs::is_regular_file(fs::path(name) / file_name)) return name;
  const auto folders = experiment_folders();
  std::vector<std::string> names;
  for (const auto& folder : folders) {
    names.push_back(folder.filename().string());
    if (names.back() == name) return folder;
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  throw_invalid("experiment", unknown_name("experiment", name, known));
}

sweep::Plan tuning_plan(const Experiment& experiment, const Arm& arm) {
  return {.name = arm.name,
          .base = experiment.base,
          .settings = overridden(overridden(experiment.settings, arm.settings), arm.tuned_with),
          .axes = arm.axes,
          .seeds = experiment.tuning_seeds,
          .metric = experiment.metric};
}

sweep::Plan deciding_plan(const Experiment& experiment, const Arm& arm,
                          const std::vector<size_t>& at) {
  auto plan = tuning_plan(experiment, arm);
  plan.settings = overridden(experiment.settings, arm.settings);
  plan.seeds = experiment.deciding_seeds;
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    plan.axes[i].values = {arm.axes[i].values.at(at.at(i))};
  }
  return plan;
}

Experiment quick_version(const Experiment& experiment) {
  Experiment quick = experiment;
  quick.quick = true;
  quick.name += "-quick";
  quick.tuning_seeds = {};
  quick.deciding_seeds = experiment.quick_seeds;
  quick.settings = overridden(experiment.settings, experiment.quick_settings);
  quick.changed = experiment.quick_settings;
  for (auto& arm : quick.arms) {
    arm.owner = quick.name;
    arm.axes = {};
    arm.tuned_with = {};
    arm.settings = overridden(arm.settings, arm.quick);
  }
  return quick;
}

}  // namespace normball::trainer::experiment
