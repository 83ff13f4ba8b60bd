// Text from a language model.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trainer/config/config.h"
#include "trainer/data/tokenizer.h"
#include "trainer/models/gpt.h"

namespace normball::trainer::train {

// The prompt and what the model adds to it. `show`, if given, gets the text piece by piece.
std::string generate_text(const models::Gpt& model, const data::Tokenizer& tokenizer,
                          const config::SampleConfig& config, std::uint64_t seed,
                          const std::function<void(std::string_view)>& show = {});

}  // namespace normball::trainer::train
