#include <algorithm>
#include <nlohmann/json.hpp>

#include "vocabulary/text.hpp"

#include "cli/command.hpp"

namespace tilewise::cli {
namespace {

/// A completion: an option or subcommand, with its help.
struct Word {
  std::string text;  ///< "--sizes", "query"
  std::string help;
  std::vector<std::string> values;  ///< of an option, where its values are known
  bool takes_value = false;
};
struct Place {
  std::string chain;
  std::vector<Word> words;
  std::vector<std::string> commands;  ///< subcommands
};

/// The choices in a type name such as "{nn,nt,tn,tt}". "UUID" is a value that the user supplies.
std::vector<std::string> choices(const std::string& type_name) {
  const auto open = type_name.find('{'), close = type_name.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  auto values = CLI::detail::split(type_name.substr(open + 1, close - open - 1), ',');
  values.erase(std::remove(values.begin(), values.end(), "UUID"), values.end());
  return values;
}

Place place_of(const CLI::App& app, const std::string& chain) {
  Place place{chain, {}, {}};
  for (const CLI::App* command : app.get_subcommands(is_shown)) {
    place.commands.push_back(command->get_name());
    place.words.push_back({command->get_name(), command->get_description(), {}, false});
  }
  for (const CLI::Option* option : app.get_options()) {
    const bool takes_value = option->get_items_expected_max() > 0;
    const auto values = takes_value ? choices(option->get_type_name()) : std::vector<std::string>{};
    if (const auto& names = option->get_lnames(); !names.empty())  // the others are aliases
      place.words.push_back({"--" + names.front(), option->get_description(), values, takes_value});
    if (option->get_positional())
      for (const std::string& value : values)
        place.words.push_back({value, option->get_description(), {}, false});
    for (const std::string& name : option->get_snames())
      place.words.push_back({"-" + name, option->get_description(), values, takes_value});
  }
  return place;
}

void collect(const CLI::App& app, const std::string& chain, std::vector<Place>& places) {
  places.push_back(place_of(app, chain));
  for (const CLI::App* command : app.get_subcommands(is_shown))
    collect(*command, chain.empty() ? command->get_name() : chain + " " + command->get_name(),
            places);
}

/// Every place, from the parser itself. The top place also has tune's options: tune is the default
/// command.
std::vector<Place> places_of(const CLI::App& root) {
  std::vector<Place> places;
  collect(root, "", places);
  const auto tune = std::find_if(places.begin(), places.end(),
                                 [](const Place& place) { return place.chain == "tune"; });
  for (const Word& word : tune->words) {
    const auto same = [&](const Word& other) { return other.text == word.text; };
    auto& top = places.front().words;
    if (std::none_of(top.begin(), top.end(), same)) top.push_back(word);
  }
  return places;
}

/// `text` in single quotes, with each apostrophe written as `apostrophe`.
std::string quoted(const std::string& text, const std::string& apostrophe) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? apostrophe : std::string(1, c);
  return result + "'";
}

/// The cases of a bash or zsh `case "$chain $word"` that follow the chain of subcommands.
std::string walk_cases(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places)
    for (const std::string& name : place.commands)
      text += "      '" + place.chain + " " + name + "') chain='" +
              (place.chain.empty() ? "" : place.chain + " ") + name + "' ;;\n";
  return text;
}

std::string bash_script(const std::vector<Place>& places) {
  std::string text =
      "# Completion of autotune for bash: eval \"$(autotune completion bash)\"\n"
      "_autotune() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
      "chain='' words='' hidden='' word\n"
      "  # bash takes --layout=nn apart: '--layout' '=' 'nn'.\n"
      "  if [[ $current == = ]]; then\n"
      "    current=''\n"
      "  elif [[ $previous == = ]]; then\n"
      "    previous=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
      "  fi\n"
      "  [[ $current == -* ]] || hidden='-*'  # options when one is begun\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case \"$chain $word\" in\n" +
      walk_cases(places) +
      "    esac\n"
      "  done\n"
      "  case \"$chain $previous\" in\n";
  for (const Place& place : places)
    for (const Word& word : place.words)
      if (word.takes_value)
        text += "    '" + place.chain + " " + word.text + "') COMPREPLY=($(compgen -W '" +
                join(word.values, " ") + "' -- \"$current\")); return ;;\n";
  text += "  esac\n  case \"$chain\" in\n";
  for (const Place& place : places) {
    text += "    '" + place.chain + "') words='" + join(place.words, " ", &Word::text) + "' ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -X \"$hidden\" -W \"$words\" -- \"$current\"))\n"
         "}\n"
         "complete -o default -F _autotune autotune\n";
}

std::string zsh_script(const std::vector<Place>& places) {
  std::string text =
      "#compdef autotune\n"
      "# Completion of autotune for zsh: autotune completion zsh > a folder of $fpath, as "
      "_autotune\n"
      "_autotune() {\n"
      "  local chain='' previous=${words[CURRENT-1]} word\n"
      "  local -a items\n"
      "  if [[ $PREFIX == --*=* ]]; then\n"
      "    previous=${PREFIX%%=*}\n"
      "    compset -P 1 '*='\n"
      "  fi\n"
      "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
      "    case \"$chain $word\" in\n" +
      walk_cases(places) +
      "    esac\n"
      "  done\n"
      "  case \"$chain $previous\" in\n";
  for (const Place& place : places)
    for (const Word& word : place.words)
      if (word.takes_value)
        text += "    '" + place.chain + " " + word.text + "') " +
                (word.values.empty() ? "_files" : "compadd -- " + join(word.values, " ")) +
                "; return ;;\n";
  text += "  esac\n  case \"$chain\" in\n";
  for (const Place& place : places) {
    text += "    '" + place.chain + "') items=(\n";
    for (const Word& word : place.words)
      text += "      " + quoted(word.text + ":" + word.help, "'\\''") + "\n";
    text += "    ) ;;\n";
  }
  return text +
         "  esac\n"
         "  [[ $PREFIX == -* ]] || items=(${items:#-*})  # options when one is begun\n"
         "  _describe autotune items || _files\n"
         "}\n"
         "# Found in $fpath, this file is the body of the function's first call.\n"
         "if [[ ${funcstack[1]-} == _autotune ]]; then\n"
         "  _autotune \"$@\"\n"
         "else\n"
         "  compdef _autotune autotune\n"
         "fi\n";
}

std::string fish_script(const std::vector<Place>& places) {
  std::string text =
      "# Completion of autotune for fish: autotune completion fish | source\n"
      "function __autotune_chain\n"
      "  set -l chain ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$chain $word\"\n";
  for (const Place& place : places)
    for (const std::string& name : place.commands)
      text += "      case '" + place.chain + " " + name + "'\n        set chain '" +
              (place.chain.empty() ? "" : place.chain + " ") + name + "'\n";
  text +=
      "    end\n"
      "  end\n"
      "  echo $chain\n"
      "end\n";
  for (const Place& place : places) {
    const std::string at =
        "complete -c autotune -n 'test (__autotune_chain) = \"" + place.chain + "\"' ";
    for (const Word& word : place.words) {
      const bool long_name = word.text.rfind("--", 0) == 0, option = word.text.rfind("-", 0) == 0;
      std::string line = at;
      line += long_name ? "-l " + word.text.substr(2)
              : option  ? "-s " + word.text.substr(1)
                        : "-f -a '" + word.text + "'";
      if (word.takes_value)
        line += word.values.empty() ? " -r" : " -x -a '" + join(word.values, " ") + "'";
      text += line + " -d " + quoted(word.help, "\\'") + "\n";
    }
  }
  return text;
}

struct CompletionCommand {
  const CLI::App* root = nullptr;
  std::string shell;
};

void setup(CLI::App& app, CompletionCommand& options) {
  options.root = app.get_parent();
  app.add_option("shell", options.shell, "Which shell")
      ->type_name("{bash,zsh,fish}")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description(""));
  app.footer(examples({"eval \"$(autotune completion bash)\"",
                       "autotune completion zsh > ~/.zfunc/_autotune",
                       "autotune completion fish | source"}));
}

int run_completion(const CompletionCommand& options, const Output& output) {
  const std::vector<Place> places = places_of(*options.root);
  const std::string script = options.shell == "bash"  ? bash_script(places)
                             : options.shell == "zsh" ? zsh_script(places)
                                                      : fish_script(places);
  if (output.json)
    print_document(Json{{"shell", options.shell}, {"script", script}});
  else
    print_exact_line(script);
  return kOk;
}

}  // namespace

void add_completion(CLI::App& app, Selection& selection) {
  add_command<CompletionCommand>(app, selection, "completion",
                                 "Print a completion script for a shell", setup, run_completion);
}

}  // namespace tilewise::cli
