#include "tuner/worker/protocol.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "db/kernel_text.hpp"

namespace tilewise {
namespace {

using Json = nlohmann::json;

constexpr std::array kErrorKinds = {
    ErrorKind::invalid_argument, ErrorKind::not_found, ErrorKind::unsupported,
    ErrorKind::no_device,        ErrorKind::device,    ErrorKind::out_of_memory,
    ErrorKind::compiler,         ErrorKind::database,  ErrorKind::io,
    ErrorKind::transient};

// Parses a message of the expected type; throws Error(device) for a malformed one.
template <typename Read>
auto decode(const Message& message, std::string_view type, const Read& read) {
  try {
    const Json json = Json::parse(message.text);
    if (json.at("type") != type) {
      throw Error(ErrorKind::device, "the worker process sent \"" +
                                         json.at("type").get<std::string>() + "\" where \"" +
                                         std::string(type) + "\" was due");
    }
    return read(json);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::device,
                "the worker process sent what cannot be read: " + std::string(error.what()));
  }
}

Message message_of(const Json& json) {
  return {json.dump(-1, ' ', false, Json::error_handler_t::replace), {}, -1};
}

Json to_value(const std::string& text) { return Json::parse(text); }

Json image_to_json(const Image& image) {
  return {{"kernel", to_string(image.kernel)},
          {"target", to_string(image.target)},
          {"source_hash", image.source_hash},
          {"launch_revision", image.launch_revision},
          {"bytes", image.binary.size()}};
}

// `blob` holds all binaries consecutively; `used` is the offset of this one.
Image image_from_json(const Json& json, const std::vector<std::uint8_t>& blob, std::size_t& used) {
  Image image;
  image.kernel = parse_kernel(json.at("kernel").get<std::string>());
  image.target = parse_target(json.at("target").get<std::string>());
  image.source_hash = json.at("source_hash");
  image.launch_revision = json.at("launch_revision");
  const std::size_t bytes = json.at("bytes");
  if (bytes > blob.size() - used) {
    throw Error(ErrorKind::device, "the worker protocol lost part of an image");
  }
  const auto begin = blob.begin() + static_cast<std::ptrdiff_t>(used);
  image.binary.assign(begin, begin + static_cast<std::ptrdiff_t>(bytes));
  used += bytes;
  return image;
}

Json request_to_json(const EvaluationRequest& request, std::vector<std::uint8_t>& blob) {
  Json images = Json::array();
  for (const Image& image : request.images) {
    images.push_back(image_to_json(image));
    blob.insert(blob.end(), image.binary.begin(), image.binary.end());
  }
  Json json = {{"plan", to_value(to_json(request.plan))},
               {"images", images},
               {"best_us", request.best_us},
               {"observe_seconds", request.observe_seconds},
               {"timed", request.timed},
               {"energy", request.energy}};
  if (request.press)
    json["press"] = {{"problem", to_value(to_json(request.press->problem))},
                     {"plan", to_value(to_json(request.press->plan))}};
  return json;
}

EvaluationRequest request_from_json(const Json& json, const std::vector<std::uint8_t>& blob,
                                    std::size_t& used) {
  EvaluationRequest request;
  request.plan = plan_from_json(json.at("plan").dump());
  for (const Json& image : json.at("images")) {
    request.images.push_back(image_from_json(image, blob, used));
  }
  request.best_us = json.at("best_us");
  request.observe_seconds = json.at("observe_seconds");
  request.timed = json.at("timed");
  request.energy = json.at("energy");
  if (json.contains("press")) {
    const Json& press = json.at("press");
    request.press = OtherSize{problem_from_json(press.at("problem").dump()),
                              plan_from_json(press.at("plan").dump())};
  }
  return request;
}

Json evaluation_to_json(const Evaluation& evaluation) {
  Json json = {{"outcome", to_string(evaluation.outcome)},
               {"detail", evaluation.detail},
               {"transient", evaluation.transient},
               {"error_ratio", evaluation.error_ratio},
               {"normwise_error", evaluation.normwise_error},
               {"observed", evaluation.observed},
               {"pressed", evaluation.pressed},
               {"usage",
                {evaluation.usage.registers, evaluation.usage.spill_bytes,
                 evaluation.usage.static_shared_bytes, evaluation.usage.stack_bytes}}};
  if (evaluation.measurement) json["measurement"] = to_value(to_json(*evaluation.measurement));
  return json;
}

Evaluation evaluation_from_json(const Json& json) {
  Evaluation evaluation;
  evaluation.outcome = parse_outcome(json.at("outcome").get<std::string>());
  evaluation.detail = json.at("detail");
  evaluation.transient = json.at("transient");
  evaluation.error_ratio = json.at("error_ratio");
  evaluation.normwise_error = json.at("normwise_error");
  evaluation.observed = json.at("observed");
  evaluation.pressed = json.at("pressed");
  const Json& usage = json.at("usage");
  evaluation.usage = {usage.at(0), usage.at(1), usage.at(2), usage.at(3)};
  if (json.contains("measurement")) {
    evaluation.measurement = measurement_from_json(json.at("measurement").dump());
  }
  return evaluation;
}

}  // namespace

Message encode(const OpenRequest& request) {
  return message_of({{"type", "open"}, {"device", request.device}});
}

OpenRequest decode_open(const Message& message) {
  return decode(message, "open", [](const Json& json) { return OpenRequest{json.at("device")}; });
}

Message encode(const BeginRequest& request) {
  const TimingOptions& timing = request.timing;
  return message_of({{"type", "begin"},
                     {"problem", to_value(to_json(request.problem))},
                     {"block_bytes", request.block_bytes},
                     {"cold", timing.cold},
                     {"max_seconds", timing.max_seconds},
                     {"min_samples", timing.min_samples},
                     {"max_samples", timing.max_samples},
                     {"target_spread", timing.target_spread},
                     {"race_rounds", timing.race_rounds}});
}

BeginRequest decode_begin(const Message& message) {
  return decode(message, "begin", [](const Json& json) {
    BeginRequest request;
    request.problem = problem_from_json(json.at("problem").dump());
    request.block_bytes = json.at("block_bytes");
    request.timing.cold = json.at("cold");
    request.timing.max_seconds = json.at("max_seconds");
    request.timing.min_samples = json.at("min_samples");
    request.timing.max_samples = json.at("max_samples");
    request.timing.target_spread = json.at("target_spread");
    request.timing.race_rounds = json.at("race_rounds");
    return request;
  });
}

Message encode(const EvaluationRequest& request) {
  std::vector<std::uint8_t> blob;
  Json json = request_to_json(request, blob);
  json["type"] = "evaluate";
  Message message = message_of(json);
  message.blob = std::move(blob);
  return message;
}

EvaluationRequest decode_evaluation_request(const Message& message) {
  return decode(message, "evaluate", [&](const Json& json) {
    std::size_t used = 0;
    return request_from_json(json, message.blob, used);
  });
}

Message encode(const RaceRequest& request) {
  std::vector<std::uint8_t> blob;
  Json finalists = Json::array();
  for (const EvaluationRequest& finalist : request.finalists) {
    finalists.push_back(request_to_json(finalist, blob));
  }
  Message message = message_of(
      {{"type", "race"}, {"finalists", finalists}, {"with_baselines", request.with_baselines}});
  message.blob = std::move(blob);
  return message;
}

RaceRequest decode_race_request(const Message& message) {
  return decode(message, "race", [&](const Json& json) {
    RaceRequest request;
    std::size_t used = 0;
    for (const Json& finalist : json.at("finalists")) {
      request.finalists.push_back(request_from_json(finalist, message.blob, used));
    }
    request.with_baselines = json.at("with_baselines");
    return request;
  });
}

Message encode(const Ready& ready) {
  return message_of({{"type", "ready"},
                     {"device", to_value(to_json(ready.device))},
                     {"driver", ready.driver},
                     {"measures_energy", ready.measures_energy}});
}

Ready decode_ready(const Message& message) {
  return decode(message, "ready", [](const Json& json) {
    return Ready{device_info_from_json(json.at("device").dump()), json.at("driver"),
                 json.at("measures_energy")};
  });
}

Message encode_done() { return message_of({{"type", "done"}}); }

Message encode(const Error& error) {
  return message_of(
      {{"type", "error"}, {"kind", static_cast<int>(error.kind())}, {"message", error.what()}});
}

Error decode_error(const Message& message) {
  return decode(message, "error", [](const Json& json) {
    const int kind = json.at("kind");
    for (const ErrorKind known : kErrorKinds) {
      if (static_cast<int>(known) == kind) return Error(known, json.at("message"));
    }
    return Error(ErrorKind::device, json.at("message"));
  });
}

Message encode(const EvaluationReply& reply) {
  return message_of({{"type", "evaluation"},
                     {"evaluation", evaluation_to_json(reply.evaluation)},
                     {"broken", reply.broken}});
}

EvaluationReply decode_evaluation_reply(const Message& message) {
  return decode(message, "evaluation", [](const Json& json) {
    return EvaluationReply{evaluation_from_json(json.at("evaluation")), json.at("broken")};
  });
}

Message encode(const RaceReply& reply) {
  Json finalists = Json::array(), baselines = Json::array();
  for (const Evaluation& finalist : reply.result.finalists) {
    finalists.push_back(evaluation_to_json(finalist));
  }
  for (const Baseline& baseline : reply.result.baselines) {
    baselines.push_back(to_value(to_json(baseline)));
  }
  return message_of({{"type", "raced"},
                     {"finalists", finalists},
                     {"baselines", baselines},
                     {"broken", reply.broken}});
}

RaceReply decode_race_reply(const Message& message) {
  return decode(message, "raced", [](const Json& json) {
    RaceReply reply;
    for (const Json& finalist : json.at("finalists")) {
      reply.result.finalists.push_back(evaluation_from_json(finalist));
    }
    for (const Json& baseline : json.at("baselines")) {
      reply.result.baselines.push_back(baseline_from_json(baseline.dump()));
    }
    reply.broken = json.at("broken");
    return reply;
  });
}

std::string type_of(const Message& message) {
  const Json json = Json::parse(message.text, nullptr, false);
  if (!json.is_object()) return "";
  return json.value("type", "");
}

}  // namespace tilewise
