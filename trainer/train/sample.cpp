#include "trainer/train/sample.h"

#include <vector>

#include "trainer/models/text_generator.h"

namespace normball::trainer::train {

std::string generate_text(const models::Gpt& model, const data::Tokenizer& tokenizer,
                          const config::SampleConfig& config, std::uint64_t seed,
                          const std::function<void(std::string_view)>& show) {
  std::vector<std::int64_t> prompt;
  for (const auto token : tokenizer.encode(config.prompt)) prompt.push_back(token);
  if (prompt.empty()) prompt.push_back(tokenizer.end_of_text().value_or('\n'));
  models::TextGenerator generator(model, prompt,
                                  {.temperature = config.temperature,
                                   .top_k = config.top_k,
                                   .vocabulary = tokenizer.vocabulary(),
                                   .seed = seed});
  std::string text = config.prompt;
  if (show) show(text);
  for (std::int64_t i = 0; i < config.length; ++i) {
    const auto token = static_cast<data::Token>(generator.next());
    const std::string piece = tokenizer.decode({&token, 1});
    if (show) show(piece);
    text += piece;
  }
  return text;
}

}  // namespace normball::trainer::train
