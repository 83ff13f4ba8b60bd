// The subcommands of `normball`: each adds itself to the application.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "doctor/findings.h"

namespace normball::cli {

// What a program knows of its own libraries.
using FurtherFindings = std::function<void(std::vector<doctor::Finding>&)>;

void add_bench_command(CLI::App& app);
void add_config_command(CLI::App& app);
void add_data_command(CLI::App& app);
void add_doctor_command(CLI::App& app, FurtherFindings further);
void add_lab_command(CLI::App& app);
void add_launch_command(CLI::App& app);
void add_report_command(CLI::App& app);

// Where there is a trainer, which they start.
void add_demo_command(CLI::App& app);
void add_experiment_command(CLI::App& app);
void add_sweep_command(CLI::App& app);

// In the program with LibTorch.
void add_bench_train_command(CLI::App& bench);
void add_train_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_sample_command(CLI::App& app);
void add_tune_command(CLI::App& app);

}  // namespace normball::cli
