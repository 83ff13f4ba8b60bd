#include "normball_torch/ranks/place.h"

#include <charconv>
#include <cstdlib>

#include "normball/base/error.h"

namespace normball::ranks {
namespace {

constexpr auto where = "ranks";
constexpr int usual_port = 29500;  // torchrun's

class Reader {
 public:
  explicit Reader(const Variable& variable) : variable_(variable) {}

  std::optional<std::string> text(const std::string& name) const {
    auto value = variable_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  std::optional<int> number(const std::string& name, int least, int most) const {
    const auto value = text(name);
    if (!value) return std::nullopt;
    int result = 0;
    const char* const end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, result);
    if (error != std::errc() || stop != end || result < least || result > most) {
      throw_invalid(where, name, " must be a number from ", least, " to ", most, ", got '", *value,
                    "'");
    }
    return result;
  }

 private:
  const Variable& variable_;
};

struct Launcher {
  const char *name, *rank, *size, *local_rank, *local_size;
};
// The first whose size is there counts: inside of srun or mpirun torchrun may have been started.
// SLURM_STEP_NUM_TASKS, which the batch script itself does not have: it is no task of a step.
constexpr Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"}};

// "gpu[03-07,12],login" -> "gpu03"
std::string first_host(const std::string& list) {
  const size_t open = list.find('['), comma = list.find(',');
  if (open == std::string::npos || comma < open) return list.substr(0, comma);
  const size_t begin = open + 1;
  return list.substr(0, open) + list.substr(begin, list.find_first_of("-,]", begin) - begin);
}

// "4(x2),3" is of the first node; SLURM's form of the local size.
int leading_number(const std::optional<std::string>& text, int otherwise) {
  const int number = text ? std::atoi(text->c_str()) : 0;
  return number > 0 ? number : otherwise;
}

void find_meeting_point(const Reader& read, const Launcher& launcher, Place& place) {
  if (const auto file = read.text("NORMBALL_STORE")) {
    place.file = *file;
    return;
  }
  place.port = read.number("MASTER_PORT", 1, 65535).value_or(usual_port);
  if (const auto address = read.text("MASTER_ADDR")) {
    place.address = *address;
  } else if (place.local_size == place.size) {
    place.address = "127.0.0.1";
  } else if (const auto nodes = read.text("SLURM_STEP_NODELIST");
             place.launcher == "srun" && nodes) {
    place.address = first_host(*nodes);
  } else {
    const bool some_elsewhere = read.text(launcher.local_size).has_value();
    throw_invalid(
        where, launcher.rank, " = ", place.rank, " and ", launcher.size, " = ", place.size,
        " make this process one of ", place.size, ", ",
        some_elsewhere ? "not all" : "maybe not all", " on this machine (", launcher.local_size,
        some_elsewhere ? " = " + std::to_string(place.local_size) : " is not set",
        "), and MASTER_ADDR, the machine of rank 0, is not set. Set it (and MASTER_PORT, ",
        usual_port, " if not given) for all of them; unset ", launcher.size,
        " to train with one process");
  }
  place.port_is_open = read.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.attempt = read.text("TORCHELASTIC_RESTART_COUNT").value_or("");
}

}  // namespace

std::optional<Place> find_place(const Variable& variable) {
  constexpr int most = 1 << 20;
  const Reader read(variable);
  for (const auto& launcher : launchers) {
    const auto size = read.number(launcher.size, 1, most);
    if (!size) continue;
    const auto rank = read.number(launcher.rank, 0, *size - 1);
    if (!rank)
      throw_invalid(where, launcher.size, " is ", *size, ", but there is no ", launcher.rank);
    if (*size == 1) return std::nullopt;
    Place place{.rank = *rank, .size = *size, .launcher = launcher.name};
    place.local_rank = read.number(launcher.local_rank, 0, most).value_or(0);
    place.local_size = leading_number(read.text(launcher.local_size), 1);
    find_meeting_point(read, launcher, place);
    return place;
  }
  return std::nullopt;
}

std::optional<Place> find_place() {
  return find_place([](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace normball::ranks
