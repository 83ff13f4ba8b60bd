// `normball train`, `normball eval` and `normball sample`.
#include <unistd.h>

#include <ATen/Parallel.h>

#include <iostream>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/table.h"
#include "normball/parallel.h"
#include "trainer/train/stored_run.h"
#include "trainer/train/trainer.h"

namespace normball::cli {
namespace {

struct TrainCommand {
  std::string config;
  std::vector<std::string> settings;
  std::string name;
  std::string resume;
  trainer::TrainingOptions options;
  bool dry_run = false;

  void run();
};

}  // namespace
}  // namespace normball::cli
