// Configurations: TOML, the table of keys, and what must fit together.
#include "fuzz/reader.h"
#include "trainer/config/config.h"

namespace normball::fuzz {
namespace {

std::vector<std::string> samples() {
  return {
      "# small\n[run]\nname = \"a\"\nsteps = 8\n[model]\nkind = \"gpt\"\nlayers = 2\nwidth = 32\n"
      "heads = 2\ncontext = 32\nvocab = 256\n[data]\nkind = \"text\"\npath = 'text.txt'\n"
      "[optimizer]\nlr = 1e-2\nbetas = [0.9, 0.95]\nrho = 10.0\n",
      "[run]\nepochs = 1\n[optimizer]\nrho = 2\n[model]\nhidden = [64, 1_000]\n[norm]\nhidden = "
      "\"spectral\"\nhidden_radius = 5e1\n"
      "route = [{ pattern = \"blocks.0.*\", radius = 25.0 }, { pattern = \"head\", norm = \"row\" "
      "}]\n"
      "[sample]\nprompt = \"\"\"\n\\u00e9 \"\"\"\n"};
}

void read(std::string_view file) {
  trainer::config::Config config;
  trainer::config::apply_toml(config, file, "file");
  trainer::config::validate(config, "file");
  const std::string text = trainer::config::to_toml(config);
  trainer::config::Config again;
  trainer::config::apply_toml(again, text, "resolved");
  require(trainer::config::to_toml(again) == text, "the resolved text reads back as itself");
}

}  // namespace

const Reader reader = {"config.toml", samples, read, 0.3};

}  // namespace normball::fuzz
