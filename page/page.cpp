#include "page/page.h"

namespace normball::page {
namespace {

constexpr std::string_view common_style = R"(
:root {
  color-scheme: light;
  --page: #f5f7fa; --card: #ffffff; --ink: #1d2733; --soft: #5b6775; --line: #e3e8ee; --grid: #edf0f4;
  --accent: #0072b2; --good: #0f7a4f; --bad: #c0262d; --note: #9a5b00; --chip: #eef2f6;
}
:root[data-theme="dark"] {
  color-scheme: dark;
  --page: #11161d; --card: #1a212b; --ink: #e6ebf1; --soft: #97a3b1; --line: #2b3542; --grid: #252e3a;
  --accent: #56b4e9; --good: #4cc38a; --bad: #ff7b7b; --note: #e0a33c; --chip: #232c38;
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { margin: 0 auto; }
h1 { font-size: 28px; line-height: 1.2; margin: 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; min-width: 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .note { color: var(--note); }
svg { max-width: 100%; height: auto; display: block; }
)";

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string begin(std::string_view title, std::string_view own_style) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>";
  page += escape(title);
  page += "</title>\n<style>";
  page += common_style;
  page += own_style;
  return page + "</style></head>\n<body><main>";
}

std::string end(std::string_view after_main) {
  return "</main>\n" + std::string(after_main) + "</body></html>\n";
}

}  // namespace normball::page
