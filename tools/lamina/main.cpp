// lamina: inspects network files; runs, measures, trains and draws networks; and reports on the machine. This file
// parses the command line; each command is in the file of its name.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "numbers.h"

import lamina;

#include "tool.h"

namespace {

// Lack of memory or threads counts as bad input; the signal number is added to `signaled`.
enum exit_code { done = 0, internal = 1, bad_input = 2, unsupported = 3, signaled = 128 };

// Message for an unknown command or option, which takes precedence over missing arguments.
std::string unknown_word(const CLI::App& app, int argc, char** argv) {
  const auto given = app.get_subcommands();
  std::vector<std::string> there;
  if (given.empty()) {
    if (argc < 2) return {};
    const std::string word = argv[1];
    if (word.starts_with('-')) return {};
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
      there.push_back(command->get_name());
    return "`" + lamina::printable(word) + "` is not a command" + tool::did_you_mean(word, there);
  }
  const CLI::App& command = *given.back();
  for (std::string word : app.remaining(true)) {
    if (!word.starts_with('-') || word == "--") continue;
    word.resize(std::min(word.find('='), word.size()));
    for (const auto* o : command.get_options())
      for (const auto& name : o->get_lnames()) there.push_back("--" + name);
    return "`" + lamina::printable(word) + "` is not an option of `lamina " + command.get_name() + "`" +
           tool::did_you_mean(word, there);
  }
  return {};
}

// Help texts: for a command that needs all extents, and for one that reads an ONNX model with the given ones.
constexpr const char* extents_of_an_input =
    "shape of an input, NAME=8x1x28x28; NAME= is optional if the net has one input. A dimension without a number "
    "takes the value of the same name in another input, or 1";
constexpr const char* extents_of_a_model =
    "shape of an input of an ONNX model, NAME=8x1x28x28; NAME= is optional if the model has one input. Other inputs "
    "keep their shapes";

constexpr const char* constant_input =
    "an input of an ONNX model that becomes a constant, NAME=NUMBER or NAME=FILE.npy";

constexpr const char* one_line_of_json = "print one line of JSON";

// Validators for integers; the message names the given and the expected value, as in `--epochs: 0; expected a whole
// number from 1 to 8`.
CLI::Validator from_to(std::int64_t low, std::int64_t high) {
  const std::string range = std::to_string(low) + " to " + std::to_string(high);
  return CLI::Validator(
      [=](const std::string& given) {
        const auto x = lamina::number_in(given);
        return x && *x >= static_cast<double>(low) && *x <= static_cast<double>(high) && *x == std::floor(*x)
                   ? std::string()
                   : given + "; expected a whole number from " + range;
      },
      range);
}

// Adds a command with its arguments; errors are prefixed with the model's name.
template <class A> std::pair<CLI::App*, std::shared_ptr<A>> command(CLI::App& app, const char* name, const char* text,
                                                                    void (*run)(const A&),
                                                                    const char* extents = extents_of_a_model) {
  auto a = std::make_shared<A>();
  auto* made = app.add_subcommand(name, text);
  made->callback([=] {
    if constexpr (requires { a->model; }) tool::about(a->model, [&] { run(*a); });
    else run(*a);
  });
  if constexpr (requires { a->model; })
    made->add_option("model", a->model,
                     "a net: NAME.onnx, or a saved one: NAME or NAME.json, with NAME.safetensors beside it")
        ->required();
  if constexpr (requires { a->shapes; }) {
    made->add_option(std::is_same_v<A, tool::bundle_arguments> ? "--shape,--input" : "--shape", a->shapes, extents);
    made->add_option("--value", a->values, constant_input);
  }
  if constexpr (requires { a->compute; })
    made->add_option("--compute", a->compute, "element type for operands of products with weights; sums are float32")
        ->check(CLI::IsMember({"float32", "bfloat16"}))
        ->capture_default_str();
  if constexpr (requires { a->fast; })
    made->add_flag("--fast", a->fast, "fewer multiplications for convolutions of 3x3, with larger errors");
  return {made, std::move(a)};
}

// Commands that inspect or run a net.
void add_uses(CLI::App& app) {
  auto [show, s] =
      command(app, "show", "print layers, shapes, parameters, flops and memory of a net, or the tensors of a file",
              tool::show, extents_of_an_input);
  show->add_option("file", s->file, "a net (NAME.onnx; NAME or NAME.json), or a .safetensors, .npy, .npz or idx file")
      ->required();
  show->add_flag("--values", s->elements, "print the elements of the tensors too");
  show->add_flag("--unsupported", s->unsupported, "print the nodes of an ONNX file that lamina does not support");
  show->add_flag("--json", s->json, one_line_of_json);

  auto [run, r] = command(app, "run", "run a net", tool::run);
  run->add_option("--input", r->inputs, "an input, NAME=FILE.npy; NAME= is optional if the net has one input");
  run->add_option("--out", r->out,
                  "folder for the outputs, DIR/NAME.npy; / and : in names become _. Without it they are printed");
  run->add_option(
      "--trace", r->trace,
      "file for the time of each operation, in a second run on one thread, in the format of chrome://tracing "
      "and Perfetto");
  run->add_flag("--json", r->json, one_line_of_json);

  auto [bench, b] = command(app, "bench", "measure a net: time of the first run and of later ones, and memory",
                            tool::bench, extents_of_an_input);
  bench->add_option("--input", b->inputs,
                    "an input, NAME=FILE.npy; NAME= is optional if the net has one input. Others are random");
  bench->add_option("--threads", b->threads, "number of threads")->check(from_to(1, 1024))->capture_default_str();
  bench->add_option("--repeat", b->repeat, "measured runs, after three warm-up runs")
      ->check(from_to(1, 100000000))
      ->capture_default_str();
  bench->add_flag("--per-operation", b->per_operation, "print the time of each operation too, from separate runs");
  bench->add_flag("--json", b->json, one_line_of_json);

  auto [plan, p] = command(app, "plan", "print the plan of a run: operations, layouts, kernels, flops, bytes, memory",
                           tool::plan, extents_of_an_input);
  plan->add_flag(
      "--measure", p->measure,
      "run the net on generated inputs and one thread, and print the time of each operation and which shares "
      "of the speeds of multiply-adds and of memory it reaches");
  plan->add_flag("--json", p->json, one_line_of_json);

  auto [draw, d] = command(app, "draw", "draw the layers of a net for Graphviz; open extents count as 1", tool::draw,
                           extents_of_an_input);
  draw->add_flag("--operations", d->operations, "draw each operation, parameter and constant instead of the layers");
  draw->add_option("--out", d->out,
                   "file to write: .dot, or .svg if Graphviz is installed. Without it the .dot text is printed");
}

void add_train(CLI::App& app) {
  auto [train, t] = command(app, "train",
                            "train a saved net on images with classes; running statistics stay fixed, and "
                            "dropout is off",
                            tool::train);
  train->add_option("--images", t->images, "images, bytes [N x H x W] or [N x C x H x W]: an idx or .npy file")
      ->required();
  train->add_option("--labels", t->labels, "classes of the images, integers [N]: an idx or .npy file")->required();
  train->add_option("--out", t->out, "net to write: NAME.onnx, or NAME for NAME.json and NAME.safetensors")->required();
  auto* images = train->add_option("--validation-images", t->validation_images, "images for validation");
  auto* labels = train->add_option("--validation-labels", t->validation_labels, "classes of the images for validation");
  images->needs(labels);
  labels->needs(images);
  const auto one_of = [&](const char* name, std::string& to, const char* text, std::vector<std::string> choices) {
    train->add_option(name, to, text)->check(CLI::IsMember(std::move(choices)))->capture_default_str();
  };
  one_of("--loss", t->loss, "loss: cross_entropy of logits, nll of log-probabilities, log_loss of probabilities",
         {"cross_entropy", "nll", "log_loss"});
  train->add_flag("--json", t->json, one_line_of_json);
  train->add_option("--freeze", t->freeze,
                    "regular expression (ECMAScript); parameters with a match in their names are not trained; "
                    "may be given several times");
  one_of("--optimizer", t->optimizer, "optimizer", {"sgd", "adam", "adamw"});
  one_of("--schedule", t->schedule, "schedule of the learning rate", {"constant", "one_cycle", "cosine"});
  command_line::add_number(*train, "--rate", t->rate, "learning rate", command_line::range::positive);
  train->add_option("--epochs", t->epochs, "passes over all images")->check(from_to(1, 1000000))->capture_default_str();
  train->add_option("--batch", t->batch, "images of a step")->check(from_to(1, 1000000))->capture_default_str();
  command_line::add_number(*train, "--mean", t->mean, "subtracted from pixel / 255");
  command_line::add_number(*train, "--deviation", t->deviation, "divisor of pixel / 255 - mean",
                           command_line::range::positive);
  train->add_option("--seed", t->seed, "seed of the order of images")->capture_default_str();
  train->add_option("--threads", t->threads, "number of threads")->check(from_to(1, 1024))->capture_default_str();
  auto* checkpoint = train->add_option("--checkpoint", t->checkpoint, "file to write after each epoch");
  train->add_flag("--resume", t->resume, "continue from the checkpoint if it exists")->needs(checkpoint);
}

// Commands that quantize a net or compile it to object files.
void add_conversions(CLI::App& app) {
  auto [profile, p] = command(
      app, "profile", "record the ranges of values that a net computes from samples, for `quantize`", tool::profile);
  profile->add_option(
      "--input", p->inputs,
      "an input of a sample, NAME=FILE.npy; once for each sample. NAME= is optional if the net has one input");
  profile->add_option("--bins", p->bins, "histogram bins of a range, for --calibration; 0: none")
      ->capture_default_str();
  profile->add_flag("--json", p->json, one_line_of_json);
  profile->add_option("--out", p->out, "profile to write, as in net.profile.json")->required();

  auto [quantize, q] =
      command(app, "quantize", "write a net that computes products with parameters in int8", tool::quantize);
  quantize->add_option("--profile", q->profile, "profile of the net, written by `lamina profile`")->required();
  quantize->add_option("--schema", q->schema, "rule for scale and zero point of a range")
      ->check(CLI::IsMember({"asymmetric", "symmetric", "symmetric_with_uint8", "symmetric_with_power2_scale"}))
      ->capture_default_str();
  quantize->add_option("--keep-float", q->keep_float,
                       "name of the parameter of a product or layer that stays in float");
  quantize->add_option("--calibration", q->calibration, "method that chooses the quantized part of a range")
      ->check(CLI::IsMember({"extrema", "percentile", "entropy", "squared_error"}))
      ->capture_default_str();
  quantize->add_option("--percentile", q->percentile, "percent of the numbers that --calibration percentile keeps")
      ->capture_default_str();
  quantize->add_option("--weight-bits", q->weight_bits, "bits of weights: 8, or 7, faster on x86 without VNNI")
      ->check(CLI::IsMember({7, 8}))
      ->capture_default_str();
  quantize->add_option("--input", q->inputs,
                       "an input of a sample to measure errors on, NAME=FILE.npy, as `profile` takes them");
  quantize->add_option("--largest-error", q->largest_error,
                       "products with a larger relative error on the samples stay in float");
  quantize->add_flag("--json", q->json, one_line_of_json);
  quantize->add_option("--out", q->out, "net to write: NAME.onnx, or NAME for NAME.json and NAME.safetensors")
      ->required();

  auto [model, e] = command(app, "export", "write a net as an ONNX model", tool::write_onnx);
  model->add_option("out", e->out, "file to write: NAME.onnx")->required();
  model->add_flag("--json", e->json, one_line_of_json);
  model->add_option("--opset", e->opset, "opset of ai.onnx; by default 21, or 20 for an int8 net")
      ->check(from_to(18, 25));
  model->add_option("--external-above", e->external_above, "weights of more bytes are stored in NAME.onnx.data")
      ->check(from_to(0, std::int64_t(1) << 40))
      ->capture_default_str();

  auto [source, c] =
      command(app, "source", "write a net as a topology in C++, with its weights beside it", tool::write_source);
  source->add_option("--out", c->out, "module to write: NAME.cppm and NAME.safetensors")->required();
  source->add_flag("--json", c->json, one_line_of_json);

  auto [bundle, a] = command(
      app, "bundle", "write a net as an object file that runs without the library: NAME.o, NAME.h, NAME.weights",
      tool::write_bundle, extents_of_an_input);
  bundle->add_option("--name", a->name, "name of the bundle, its entry and its files: a C identifier")->required();
  bundle->add_option("--out", a->out, "folder for the files; created if it does not exist")->capture_default_str();
  bundle->add_option("--entry", a->entries,
                     "a further entry, NAME=8x1x28x28; one shape for each input, separated by commas");
  bundle->add_option("--api", a->api, "static: offsets are in the header; dynamic: in a table of the object file")
      ->check(CLI::IsMember({"static", "dynamic"}))
      ->capture_default_str();
  bundle->add_option("--isa", a->set, "instruction set of the kernels; the best of this machine by default")
      ->check(CLI::IsMember({"sse2", "avx2", "avx512", "neon64"}));
  bundle->add_option("--target", a->target,
                     "target to compile for: x86_64-linux-gnu or aarch64-linux-gnu; this machine by default");
  bundle->add_option(
      "--cpu", a->cpu,
      "-march of the C compiler for the code that calls kernels; for aarch64 -mcpu, for the kernels too");
  bundle->add_flag("--optimize", a->optimize,
                   "fold batch norms into the weights before them; results differ in last bits");
  bundle->add_flag("--json", a->json, one_line_of_json);
  bundle->add_flag("--source", a->source, "write NAME.c too");
  bundle->add_flag("--text", a->text, "write NAME.weights.txt too: the weights as numbers, to include in an array");
  bundle->add_flag("--module", a->module_interface, "write NAME.cppm too: the header as a C++ module");
  bundle->add_flag("--dump-graph", a->graph, "write NAME.graph.dot and NAME.graph.json too");
  bundle->add_flag("--instrument", a->instrument,
                   "call NAME_before and NAME_after, which the program defines, around each operation; a cond, loop or "
                   "scan counts as one operation");
  bundle->add_flag("--dump-tensors", a->dump_tensors,
                   "call NAME_tensor, which the program defines, with each result in memory; for a cond, loop or scan "
                   "only with its results");
}

int run(int argc, char** argv) {
  CLI::App app("lamina " LAMINA_VERSION ": runs, measures, trains and converts saved nets", "lamina");
  app.set_version_flag("--version", LAMINA_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 internal error; 2 bad use, bad input, or out of memory or threads; 3 not supported; "
      "130 and 143 interrupted by Ctrl-C or SIGTERM, without half-written files.");
  add_uses(app);
  add_train(app);
  add_conversions(app);
  auto [doctor, d] =
      command(app, "doctor", "print instruction sets, kernels, memory and versions, and run a self-test", tool::doctor);
  doctor->add_flag("--json", d->json, one_line_of_json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() != 0) {
      const bool unread = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) ||
                          e.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
      const std::string unknown = unread ? unknown_word(app, argc, argv) : std::string();
      throw lamina::value_error((unknown.empty() ? lamina::printable(e.what(), 1024) : unknown) + " (see --help)");
    }
    app.exit(e);  // prints the help or the version
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw lamina::file_error("cannot write to standard output");
  return done;
}

// Allocates nothing, since memory may be exhausted.
int complain(const char* what, exit_code code) {
  std::fprintf(stderr, "lamina: %s%s\n", code == internal ? "internal error: " : "", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const lamina::stopped_error& e) {
    std::fprintf(stderr, "lamina: interrupted: %s\n", e.what());
    return signaled + tool::signals::noted();
  } catch (const lamina::unsupported_error& e) {
    return complain(e.what(), unsupported);
  } catch (const lamina::error& e) { return complain(e.what(), bad_input); } catch (const std::bad_alloc&) {
    return complain("out of memory", bad_input);
  } catch (const std::exception& e) { return complain(e.what(), internal); }
}
