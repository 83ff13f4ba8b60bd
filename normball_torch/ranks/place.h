// Which of several processes this one is, as its launcher says it in the environment: torchrun
// (RANK, WORLD_SIZE, ...), mpirun (OMPI_*, PMI_*) and srun (SLURM_*).
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace normball::ranks {

struct Place {
  int rank = 0;
  int size = 1;
  int local_rank = 0, local_size = 1;  // on this machine
  std::string launcher = {};           // whose variables were found, for messages

  // Where the processes meet: a file that all can write to, or else a port that rank 0 opens.
  std::string file = {};
  std::string address = {};
  int port = 0;
  bool port_is_open = false;  // by the launcher (torchrun's agent), not by rank 0
  std::string attempt = {};   // of a launcher that starts all anew on the same port
};

using Variable = std::function<std::optional<std::string>(const std::string& name)>;

// None for a process that was started alone, and for a launcher's only one. Throws
// std::invalid_argument for variables that are incomplete or contradict each other, naming them.
std::optional<Place> find_place(const Variable& variable);
std::optional<Place> find_place();  // in the environment of this process

}  // namespace normball::ranks
