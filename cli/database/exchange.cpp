#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "cli/command.hpp"
#include "cli/common/bench.hpp"
#include "cli/common/input_file.hpp"
#include "cli/common/inputs.hpp"
#include "cli/common/json.hpp"
#include "cli/common/stored.hpp"
#include "matmul/portfolio.hpp"
#include "tilewise/version.hpp"
#include "tuner/few_records.hpp"
#include "tuner/search/foreign_formats.hpp"
#include "vocabulary/problem_text.hpp"

namespace tilewise::cli {
namespace {

struct ExportCommand {
  std::string file = "-";
  std::string gpu;
  std::string database;
  bool portfolio = false;
  std::string made_by, older;  // of a portfolio
  std::size_t configurations = 64;
  std::string form = "tilewise";  // or t4, kernel-tuner
  std::string kernel_template;
  ProblemOptions problems;
};

/// Adds --as and the options it needs: a format of another tuner holds one template's
/// configurations for one problem.
void add_form_options(CLI::App& app, std::string& form, std::string& kernel_template,
                      ProblemOptions& problems, const char* forms) {
  app.add_option("--as", form,
                 "The file's form; those of other tuners have the configurations of one --template "
                 "for one problem (--sizes, --dtype, ...) on one --gpu")
      ->type_name(forms)
      ->check(CLI::IsMember(std::vector<std::string>{"tilewise", "t4", "kernel-tuner"}))
      ->capture_default_str();
  app.add_option("--template", kernel_template, "Of the configurations")->type_name("NAME");
  add_problem_options(app, problems, "", false);
}

/// The problem, GPU and template that the options name.
Record named_record(const std::string& kernel_template, const ProblemOptions& options,
                    const Database& database, const std::string& gpu) {
  const auto bad = [](const std::string& why) {
    return Error(ErrorKind::invalid_argument, "a form of another tuner needs " + why);
  };
  if (kernel_template.empty()) throw bad("--template");
  if (!names_problems(options)) throw bad("--sizes");
  refuse_kept_order(options);
  const std::vector<Problem> problems = problems_of(options);
  if (problems.size() != 1) throw bad("one problem, not " + std::to_string(problems.size()));
  Record record;
  record.problem = problems.front();
  record.candidate.kernel_template = find_template(kernel_template).name;
  if (std::count(gpu.begin(), gpu.end(), '|') == 2) {
    record.gpu = gpu;
    return record;
  }
  const std::vector<std::string> gpus = stored_gpus(database, gpu);
  if (gpus.size() != 1)
    throw bad("a --gpu that names one stored GPU, or a key as 'NVIDIA H200|9.0|132'");
  record.gpu = gpus.front();
  return record;
}

void setup_export(CLI::App& app, ExportCommand& options) {
  app.add_option("file", options.file, "Written; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  add_gpu_option(app, options.gpu);
  app.add_flag("--portfolio", options.portfolio,
               "Only the problems, configurations and times of what serves one GPU, in the form in "
               "which Tilewise ships them (portfolios/)");
  CLI::Option* portfolio = app.get_option("--portfolio");
  app.add_option("--made-by", options.made_by,
                 "With --portfolio: a note for readers, the commands that made it")
      ->type_name("TEXT")
      ->needs(portfolio);
  app.add_option(
         "--configurations", options.configurations,
         "With --portfolio: the most configurations of a kind of products and layout (those that "
         "differ in SPLIT_K alone are one), chosen together for the stored problems by measured "
         "times, where there are none by expected "
         "ones")
      ->type_name("N")
      ->transform(whole_number(1, 1000))
      ->needs(portfolio)
      ->capture_default_str();
  app.add_option(
         "--fill-from", options.older,
         "With --portfolio: an older portfolio of the GPU, whose records for other problems are "
         "added: those of the new one's configurations and, up to --configurations, of "
         "further ones")
      ->type_name("FILE")
      ->needs(portfolio);
  add_form_options(app, options.form, options.kernel_template, options.problems,
                   "{tilewise,t4,kernel-tuner}");
  add_database_option(app, options.database);
  app.footer(
      examples({"autotune export winners.json", "autotune export --gpu H200 h200.json",
                "autotune export --portfolio --gpu H200 --fill-from portfolios/nvidia-h200.json "
                "new.json",
                "autotune export | ssh other autotune import -"}));
}

struct Exported {
  std::string text;
  std::int64_t left_out = 0;
  std::vector<StoredImage> images = {};  ///< of a database, with --images
};

/// The portfolio of a file, whose name is in an error.
Portfolio older_portfolio(const std::string& file) {
  try {
    return read_portfolio(contents_of(file));
  } catch (const Error& error) {
    throw Error(error.kind(), "--fill-from: " + file + ": " + error.what());
  }
}

/// The records that serve on a GPU, and the corrections of their kinds.
std::string portfolio_of(const Database& database, const std::string& gpu,
                         const ExportCommand& options) {
  Portfolio portfolio;
  portfolio.records = few_records(database, gpu, options.configurations);
  const std::vector<Record>& records = portfolio.records;
  if (records.empty())
    throw Error(ErrorKind::not_found, "no winner was measured on " + gpu +
                                          ": there is no portfolio to write (imported winners are "
                                          "another machine's)");
  for (const Record& record : records)
    if (const std::string kind = kind_text(record.problem); !portfolio.corrections.contains(kind))
      if (const auto stored = database.corrections(gpu, kind))
        portfolio.corrections[kind] = stored->trees;
  std::string newest, driver;
  for (const Record& record : records)
    if (record.environment.date > newest) {
      newest = record.environment.date;
      driver = record.environment.driver;
    }
  portfolio.made_by = !options.made_by.empty()
                          ? options.made_by
                          : "autotune " + std::string(version_text()) +
                                " export --portfolio, measured until " + newest.substr(0, 10) +
                                " with driver " + driver;
  if (!options.older.empty()) {
    Portfolio older = older_portfolio(options.older);
    const std::string older_by = older.made_by;
    const std::size_t added = fill_from(portfolio, std::move(older), options.configurations);
    portfolio.made_by += "; " + std::to_string(added) + (added == 1 ? " record" : " records") +
                         " of an older portfolio: " + older_by;
  }
  return portfolio_text(portfolio);
}

Exported exported(const ExportCommand& options) {
  const Database database = open_to_read(options.database);
  Exported result;
  if (options.form != "tilewise") {
    const Record named =
        named_record(options.kernel_template, options.problems, database, options.gpu);
    std::vector<Record> records = database.records({.problem = named.problem, .gpu = named.gpu});
    std::erase_if(records, [&](const Record& record) {
      return record.candidate.kernel_template != named.candidate.kernel_template;
    });
    result.text = options.form == "t4" ? t4_text(records) : kernel_tuner_text(records);
    return result;
  }
  const auto of_gpu = [&](const std::string& gpu) {
    result.text = database.export_json(gpu, &result.left_out);
    return result;
  };
  if (options.gpu.empty() && !options.portfolio) return of_gpu("");
  const std::vector<std::string> gpus = stored_gpus(database, options.gpu);
  if (gpus.empty())
    throw Error(ErrorKind::not_found, "nothing is stored for any GPU: there is no portfolio");
  if (gpus.size() > 1)
    throw Error(ErrorKind::invalid_argument,
                "--gpu: '" + options.gpu + "' names several stored GPUs: '" + gpus[0] + "', '" +
                    gpus[1] + "'; an export takes one, or all of them without --gpu");
  if (options.portfolio) return {portfolio_of(database, gpus.front(), options)};
  return of_gpu(gpus.front());
}

int run_export(const ExportCommand& options, const Output& output) {
  if (options.file != "-") check_writable("export", options.file);
  auto [text, left_out, images] = exported(options);
  const int status = left_out > 0 ? kDatabase : kOk;
  if (left_out > 0)
    warn("the export is not complete: " + std::to_string(left_out) +
         " rows could not be read and are left out; `autotune db check` lists what is damaged");
  text.erase(text.find_last_not_of('\n') + 1);
  if (options.file == "-") {
    print_exact_line(text);  // already JSON
    return status;
  }
  std::ofstream file(options.file, std::ios::binary | std::ios::trunc);
  file << text << '\n';
  file.close();
  if (!file) throw cannot_write(options.file);
  if (output.json)
    print_document(
        Json{{"file", options.file}, {"bytes", text.size() + 1}, {"left_out", left_out}});
  else
    note(output, "written to " + options.file);
  return status;
}

struct ImportCommand {
  std::vector<std::string> files;
  std::string database;
  bool images = false;
  std::string form = "tilewise", kernel_template, gpu;
  ProblemOptions problems;
};

void setup_import(CLI::App& app, ImportCommand& options) {
  app.add_option("files", options.files,
                 "Exports, or databases of other machines, which are not changed; - is standard "
                 "input")
      ->type_name("FILE")
      ->required();
  app.add_flag(
      "--images", options.images,
      "Of databases, take the compiled images, too: they are run as they are, so only from "
      "those you trust");
  add_form_options(app, options.form, options.kernel_template, options.problems,
                   "{tilewise,t4,kernel-tuner}");
  app.add_option("--gpu", options.gpu,
                 "With --as: a stored GPU, or a key: NAME|CAPABILITY|MULTIPROCESSORS")
      ->type_name("NAME");
  add_database_option(app, options.database);
  app.footer(
      "All of a file is taken, or nothing of it. Its times are another machine's: they serve where "
      "nothing\nwas measured here, and show a search where to begin; they replace nothing that was "
      "measured here.\n\n" +
      examples({"autotune import winners.json", "autotune import - < winners.json",
                "autotune import --db all.db first.db second.db"}));
}

/// Whether the file begins with the magic bytes of SQLite.
bool is_database(const std::string& name) {
  constexpr std::string_view kMagic = "SQLite format 3";
  std::error_code error;
  if (!std::filesystem::is_regular_file(name, error)) return false;  // a pipe can be read only once
  std::ifstream file(name, std::ios::binary);
  std::string begin(kMagic.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kMagic;
}

/// The records of an export file.
Exported export_in(const std::string& name, bool images) {
  if (!is_database(name)) {
    if (images)
      throw Error(ErrorKind::invalid_argument,
                  "--images: '" + name + "' is no database; an export as text has no images");
    return {contents_of(name)};
  }
  const Database database = open_to_read(name);
  Exported result;
  result.text = database.export_json("", &result.left_out);
  if (!images) return result;
  std::int64_t left_out = 0;
  result.images = database.stored_images(&left_out);
  result.left_out += left_out;
  return result;
}

/// Database::import_json(). With several files, an error names the file.
std::int64_t import_one(Database& database, const ImportCommand& options, std::size_t i,
                        const Exported& one) try {
  return database.import_json(one.text, one.images);
} catch (const Error& error) {
  if (options.files.size() == 1) throw;
  throw Error(error.kind(), options.files[i] + ": " + error.what() +
                                (i > 0 ? "; the files before it are imported" : ""));
}

int run_import(const ImportCommand& options, const Output& output) {
  std::vector<Exported> exports;
  for (const std::string& file : options.files) exports.push_back(export_in(file, options.images));
  Database database = open_to_write(default_database_path(options.database));
  std::int64_t records = 0, images = 0, left_out = 0;
  for (std::size_t i = 0; i < exports.size(); ++i) {
    std::string& text = exports[i].text;
    if (options.form != "tilewise")
      text =
          as_export(text, options.files[i],
                    named_record(options.kernel_template, options.problems, database, options.gpu));
    records += import_one(database, options, i, exports[i]);
    images += std::ssize(exports[i].images);
    left_out += exports[i].left_out;
  }
  const int status = left_out > 0 ? kDatabase : kOk;
  if (left_out > 0)
    warn(std::to_string(left_out) +
         " rows could not be read and are left out; `autotune db check` lists what is damaged");
  if (output.json) {
    print_document(Json{{"imported", records},
                        {"images", images},
                        {"left_out", left_out},
                        {"database", database.path().string()}});
    return status;
  }
  print_line(std::to_string(records) + " new records in " + database.path().string());
  if (images > 0) print_line(std::to_string(images) + " images");
  return status;
}

}  // namespace

void add_export(CLI::App& app, Selection& selection) {
  add_command<ExportCommand>(app, selection, "export", "Write what is stored as JSON", setup_export,
                             run_export);
}

void add_import(CLI::App& app, Selection& selection) {
  add_command<ImportCommand>(app, selection, "import", "Take in what other machines measured",
                             setup_import, run_import);
}

}  // namespace tilewise::cli
