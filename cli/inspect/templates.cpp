
#include "cli/command.hpp"
#include "cli/common/json.hpp"
#include "templates/space/search_space.hpp"

namespace tilewise::cli {
namespace {

struct TemplatesCommand {
  std::vector<std::string> names;
};

void setup(CLI::App& app, TemplatesCommand& options) {
  app.add_option("names", options.names, "Only these templates")->type_name("NAME");
  app.footer(
      kCandidateLegend + std::string("\n\n") +
      examples({"autotune templates", "autotune templates simt", "autotune templates --json"}));
}

std::string value_text(const Parameter& parameter, std::size_t i) {
  const std::string value = std::to_string(parameter.values[i]);
  return i < parameter.labels.size() ? value + " (" + parameter.labels[i] + ")" : value;
}

void print_template(const KernelTemplate& kernel) {
  print_exact_line(styled(kernel.name, Style::bold, colours(StandardStream::out)) + ": " +
                   kernel.summary);
  print_wrapped("  parameters:");
  for (const Parameter& parameter : kernel.parameters) {
    std::string values;
    for (std::size_t i = 0; i < parameter.values.size(); ++i)
      values += (i > 0 ? ", " : "") + value_text(parameter, i);
    if (const int* plain = plain_value(parameter)) values += "; plain: " + std::to_string(*plain);
    print_wrapped("    " + parameter.name + ": " + parameter.help);
    print_wrapped("      " + values);
  }
  print_wrapped("  constraints (a hint concerns speed: the search obeys it, serving does not):");
  for (const Constraint& constraint : kernel.constraints)
    print_wrapped("    " + constraint.name + (constraint.for_search_only ? " (hint): " : ": ") +
                  constraint.text);
  print_wrapped("");
}

Json template_json(const KernelTemplate& kernel) {
  const auto parameter_json = [](const Parameter& parameter) {
    return Json{{"name", parameter.name},
                {"values", parameter.values},
                {"labels", parameter.labels},
                {"plain", plain_value(parameter) ? Json(*plain_value(parameter)) : Json()},
                {"help", parameter.help}};
  };
  const auto constraint_json = [](const Constraint& constraint) {
    return Json{{"name", constraint.name},
                {"text", constraint.text},
                {"reads", constraint.reads},
                {"for_search_only", constraint.for_search_only}};
  };
  return {{"name", kernel.name},
          {"summary", kernel.summary},
          {"revision", kernel.revision},
          {"parameters", array_of(kernel.parameters, parameter_json)},
          {"constraints", array_of(kernel.constraints, constraint_json)}};
}

int run_templates(const TemplatesCommand& options, const Output& output) {
  const std::vector<const KernelTemplate*> kernels = select_templates(options.names);
  if (output.json)
    print_document(Json{{"templates", array_of(kernels, [](const auto* kernel) {
                           return template_json(*kernel);
                         })}});
  else
    for (const KernelTemplate* kernel : kernels) print_template(*kernel);
  return kOk;
}

}  // namespace

void add_templates(CLI::App& app, Selection& selection) {
  add_command<TemplatesCommand>(app, selection, "templates",
                                "List kernel templates: parameters, values, constraints", setup,
                                run_templates);
}

}  // namespace tilewise::cli
