#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/common/stored.hpp"

namespace tilewise::cli {
namespace {

using Json = nlohmann::ordered_json;

struct MergeCommand {
  std::string into;
  std::vector<std::string> from;
  bool images = false;
};

void setup(CLI::App& app, MergeCommand& options) {
  app.add_option("into", options.into, "The database that takes all; made where it is absent")
      ->type_name("DATABASE")
      ->required();
  app.add_option("from", options.from, "Databases to take from; they are not changed")
      ->type_name("DATABASE")
      ->required();
  app.add_flag("--images", options.images,
               "Take compiled images, too: they are run as they are, so only from those you trust");
  app.footer(
      "As by export and import: what was measured for DATABASE itself stays; what is taken counts "
      "as\nanother machine's. Of two times that are taken the later stays.\n\n" +
      examples({"autotune merge all.db first.db second.db"}));
}

int run_merge(const MergeCommand& options, const Output& output) {
  std::vector<std::string> texts;
  std::int64_t left_out = 0;
  for (const std::string& name : options.from) {
    std::int64_t unreadable = 0;
    texts.push_back(open_to_read(name).export_json("", options.images, &unreadable));
    left_out += unreadable;
  }
  Database into = open_to_write(options.into);
  std::int64_t records = 0, images = 0;
  for (const std::string& text : texts) {
    const Database::Imported imported = into.import_json(text, options.images);
    records += imported.records;
    images += imported.images;
  }
  if (left_out > 0)
    warn(std::to_string(left_out) +
         " rows could not be read and are left out; `autotune db check` lists what is damaged");
  if (output.json)
    print_document(Json{{"imported", records},
                        {"images", images},
                        {"left_out", left_out},
                        {"database", into.path().string()}}
                       .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    print_line(std::to_string(records) + " new records in " + into.path().string());
  return left_out > 0 ? kDatabase : kOk;
}

}  // namespace

void add_merge(CLI::App& app, Selection& selection) {
  add_command<MergeCommand>(app, selection, "merge", "Take databases together into one", setup,
                            run_merge);
}

}  // namespace tilewise::cli
