// The manual page, made from the parser: `autotune manual | man -l -`. Installed as autotune(1).
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "tilewise/version.hpp"

namespace tilewise::cli {
namespace {

/// Text for roff: escapes backslashes and hyphens, and no line begins with a request.
std::string roff(const std::string& text) {
  std::string safe;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\')
      safe += "\\e";
    else if (c == '-')
      safe += "\\-";
    else
      safe += c;
    line_begins = c == '\n';
  }
  return safe;
}

/// A footer: paragraphs, and unchanged indented lines below a line "Heading:". `heading` is the
/// macro of headings.
std::string footer_text(const std::string& footer, const std::string& heading) {
  std::istringstream lines(footer);
  std::string text;
  bool listing = false, open = false;
  const auto end_listing = [&] {
    if (listing) text += ".fi\n.RE\n";
    listing = false;
  };
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.rfind("  ", 0) == 0;
    if (!indented) end_listing();
    const auto colon = line.find(':');
    const bool starts = !indented && colon != std::string::npos && colon < 14 &&
                        line.find(' ') >= std::min(colon, line.size());
    if (line.empty()) {
      open = false;
    } else if (indented) {
      if (!listing) text += ".RS 4\n.nf\n";
      listing = true;
      text += roff(line.substr(2)) + "\n";
    } else if (starts || line == "Exit status:") {
      std::string title = line.substr(0, colon);
      if (heading == ".SH")
        for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
      text += heading + " \"" + roff(title) + "\"\n";
      if (colon + 2 < line.size()) text += roff(line.substr(colon + 2)) + "\n";
      open = true;
    } else {
      if (!open) text += ".PP\n";
      open = true;
      text += roff(line) + "\n";
    }
  }
  end_listing();
  return text;
}

/// "--sizes, --size \\fISIZES\\fR"; the name of a positional argument.
std::string names_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += ", -" + name;
  for (const std::string& name : option.get_lnames()) names += ", --" + name;
  if (names.empty()) names = ", " + option.get_name();
  std::string text = roff(names.substr(2));
  if (option.get_items_expected_max() > 0 && !option.get_type_name().empty())
    text += "\\fR " + roff(option.get_type_name());
  return text;
}

std::string options_text(const CLI::App& app, bool with_help) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (!with_help && option == app.get_help_ptr()) continue;
    text += ".TP\n.B " + names_of(*option) + "\n" + roff(option->get_description());
    if (!option->get_default_str().empty())
      text += roff(" (default: " + option->get_default_str() + ")");
    text += option->get_required() ? " (required)\n" : "\n";
  }
  return text;
}

/// A subcommand and its subcommands.
void add_command_text(std::string& text, const CLI::App& app, const std::string& chain) {
  text += ".SH \"" + roff(chain) + "\"\n" + roff(app.get_description()) + ".\n" +
          options_text(app, false) + footer_text(app.get_footer(), ".SS");
  for (const CLI::App* below : app.get_subcommands(is_shown))
    add_command_text(text, *below, chain + " " + below->get_name());
}

std::string manual_of(const CLI::App& root) {
  std::string text = ".\\\" Made by `autotune manual` of the program's own options.\n";
  text += ".TH AUTOTUNE 1 \"\" \"Tilewise " + std::string(tilewise::version_text()) +
          "\" \"User Commands\"\n.SH NAME\nautotune \\- tunes matrix products on NVIDIA GPUs\n"
          ".SH SYNOPSIS\n.B autotune\n[\\fISUBCOMMAND\\fR] [\\fIoptions\\fR]\n.SH DESCRIPTION\n";
  text += roff(root.get_description()) + "\n" + options_text(root, true);
  text += ".SH SUBCOMMANDS\n";
  const auto commands = root.get_subcommands(is_shown);
  for (const CLI::App* command : commands)
    text += ".TP\n.B " + roff(command->get_name()) + "\n" + roff(command->get_description()) + "\n";
  text += footer_text(root.get_footer(), ".SH");
  for (const CLI::App* command : commands)
    add_command_text(text, *command, "autotune " + command->get_name());
  return text +
         ".SH FILES\n.TP\n.I ~/.local/share/tilewise/tilewise.db\nThe database, where neither "
         "\\-\\-db nor TILEWISE_DB names another.\n";
}

struct ManualCommand {
  const CLI::App* root = nullptr;
};

void setup(CLI::App& app, ManualCommand& options) {
  options.root = app.get_parent();
  app.group("");
}

int run_manual(const ManualCommand& options, const Output& output) {
  const std::string page = manual_of(*options.root);
  if (output.json)
    print_document(Json{{"manual", page}});
  else
    print_exact_line(page);
  return kOk;
}

}  // namespace

void add_manual(CLI::App& app, Selection& selection) {
  add_command<ManualCommand>(app, selection, "manual", "Print the manual page", setup, run_manual);
}

}  // namespace tilewise::cli
