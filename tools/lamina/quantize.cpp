// lamina quantize: a net whose products are computed in int8.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;

namespace {

struct arguments {
  std::string model, profile, schema = "asymmetric", out;
  quantization_options o;
};

void run(arguments& a) {
  const saved_net net = load_model(a.model);
  a.o.schema = quantization_schema_of(a.schema);
  const auto made = quantize(net, load_profile(a.profile), a.o);
  auto said = net.metadata;
  said["quantised"] = a.schema;
  save_net(a.out, *made.program, made.states, said);
  const auto files = files_of_net(a.out);
  std::printf("%s%s\n%s\n", made.report.text().c_str(), printable(files.structure, 1024).c_str(),
              printable(files.weights, 1024).c_str());
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto* command = app.add_subcommand("quantize", "write a net whose products with parameters are computed in int8");
  auto a = std::make_shared<arguments>();
  add_model(*command, a->model);
  command->add_option("--profile", a->profile, "the ranges of its values, as `profile` wrote them")->required();
  command->add_option("--schema", a->schema, "how a range becomes a scale and an offset")
      ->check(CLI::IsMember({"asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"}))
      ->capture_default_str();
  command->add_option("--keep-float", a->o.keep_float, "a product or layer that stays as it is, by its parameter's name");
  command->add_option("--out", a->out, "the net to write: NAME.json and NAME.safetensors")->required();
  command->callback([a] { about(a->model, [&] { run(*a); }); });
}

}  // namespace tool
