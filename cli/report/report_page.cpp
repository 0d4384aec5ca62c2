#include "cli/report/report_page.hpp"

#include <stdexcept>
#include <string_view>

#include "cli/common/json.hpp"
#include "tilewise/version.hpp"
#include "vocabulary/text.hpp"

namespace tilewise::cli {
namespace {

std::string_view page_file(std::string_view name) {
  for (int i = 0; i < kEmbeddedPageCount; ++i)
    if (kEmbeddedPages[i].name == name) return kEmbeddedPages[i].text;
  throw std::logic_error("no page file " + std::string(name));
}

/// A script's text for an HTML script element, which "</script" and "<!--" would end or change. In
/// JavaScript both occur only in strings, patterns and comments, where the backslash is harmless.
std::string embeddable(const std::string& script) {
  constexpr std::string_view kEnd = "/script";
  const auto ends = [&](std::size_t at) {
    for (std::size_t i = 0; i < kEnd.size(); ++i)
      if (at + i >= script.size() || (script[at + i] | 0x20) != (kEnd[i] | 0x20)) return false;
    return true;
  };
  std::string safe;
  safe.reserve(script.size());
  for (std::size_t i = 0; i < script.size(); ++i) {
    safe += script[i];
    if (script[i] == '<' && (ends(i + 1) || script.compare(i + 1, 3, "!--") == 0)) safe += '\\';
  }
  return safe;
}

std::string html_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else if (c == '>')
      safe += "&gt;";
    else if (c == '"')
      safe += "&quot;";
    else
      safe += c;
  }
  return safe;
}

std::string data_script(const std::string& id, const std::string& json) {
  return "<script type=\"application/json\" id=\"" + id + "\">" + json + "</script>\n";
}

std::string summary_json(const ReportSummary& summary, const std::vector<ReportGpu>& gpus) {
  Json list = Json::array();
  for (const ReportGpu& gpu : gpus) {
    Json json{{"key", gpu.key}};
    if (gpu.info && !gpu.info->target.host) {
      const DeviceInfo& info = *gpu.info;
      json["name"] = info.name;
      json["capability"] =
          std::to_string(info.target.major) + "." + std::to_string(info.target.minor);
      json["multiprocessors"] = info.multiprocessors;
      json["facts"] = gpu.facts.has_value();
    }
    if (json.value("facts", false)) {
      json["clock_mhz"] = gpu.facts->clock_khz / 1000;
      json["l2_bytes"] = gpu.facts->l2_bytes;
      json["power_limit_w"] = gpu.facts->power_limit_w;
      json["peak_tflops"] = peak_flops(*gpu.info) * 1e-12;
      json["bandwidth"] = peak_bandwidth(*gpu.info);
    }
    list.push_back(json);
  }
  return script_safe(Json{
      {"program_version", tilewise::version_text()},
      {"database", summary.database},
      {"made", summary.made},
      {"records", summary.records},
      {"problems", summary.problems},
      {"left_out_problems", summary.left_out_problems},
      {"left_out_records", summary.left_out_records},
      {"most_candidates", summary.most_candidates},
      {"gpus", list}}.dump(-1, ' ', true, Json::error_handler_t::replace));
}

/// The template with each {{name}} replaced by the result of `value_of`.
template <class ValueOf>
std::string filled(std::string_view text, ValueOf value_of) {
  std::string page;
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find("{{", at), close = text.find("}}", open);
    if (open == std::string_view::npos || close == std::string_view::npos)
      return page.append(text.substr(at));
    page.append(text.substr(at, open - at));
    page.append(value_of(text.substr(open + 2, close - open - 2)));
    at = close + 2;
  }
}

}  // namespace

std::string report_page(const ReportSummary& summary, const std::vector<ReportGpu>& gpus,
                        const std::vector<std::string>& overviews,
                        const std::vector<std::string>& details, const ReportStrings& strings,
                        const Plotly& plotly) {
  return filled(page_file("report.html"), [&](std::string_view name) -> std::string {
    if (name == "data") {
      return data_script("summary", summary_json(summary, gpus)) +
             data_script("catalog", catalog_json()) + data_script("strings", strings.json()) +
             data_script("overview", "[" + join(overviews, ",\n") + "]");
    }
    if (name == "details") {
      std::string all;
      for (std::size_t i = 0; i < details.size(); ++i)
        all += data_script("details-" + std::to_string(i), details[i]);
      return all;
    }
    if (name == "plotly") return embeddable(plotly.text);
    if (name == "plotly_version")
      return html_text(plotly.version.empty() ? "of an unknown version" : plotly.version);
    if (name == "plotly_copyright") return html_text(plotly.copyright);
    return std::string(page_file(name));
  });
}

}  // namespace tilewise::cli
