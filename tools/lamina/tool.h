// The commands and their shared functions. Include it after <string>, <vector> and `import lamina;`.
#pragma once

namespace tool {

// ---- commands, one in each file; main.cpp parses their arguments -----------------------------------------------------

/// Input options of a net: shapes, NAME=8x1x28x28, and, for ONNX models, values of inputs that become constants,
/// NAME=NUMBER or NAME=FILE.npy.
struct given_inputs {
  std::vector<std::string> shapes, values;
};
struct model_arguments : given_inputs {
  std::string model;
};

struct show_arguments : given_inputs {
  std::string file;
  bool elements = false, json = false, unsupported = false;
};
/// Arguments of commands that plan a net.
struct planned_arguments : model_arguments {
  std::string compute = "float32";
  bool fast = false;
  lamina::pass_options passes() const {
    return {.compute = compute == "bfloat16" ? lamina::dtype::bfloat16 : lamina::dtype::float32,
            .fast_convolutions = fast};
  }
};
struct run_arguments : planned_arguments {
  std::string out, trace;
  std::vector<std::string> inputs;
  bool json = false;
};
struct bench_arguments : planned_arguments {
  std::vector<std::string> inputs;
  int threads = 1;
  std::int64_t repeat = 100;
  bool json = false, per_operation = false;
};
struct plan_arguments : planned_arguments {
  bool json = false, measure = false;
};
struct draw_arguments : model_arguments {
  std::string out;
  bool operations = false;
};
struct doctor_arguments {
  bool json = false;
};
struct train_arguments : model_arguments {
  std::string out, images, labels, validation_images, validation_labels, loss = "cross_entropy", optimizer = "adam",
                                                                         schedule = "constant", checkpoint;
  std::int64_t epochs = 1, batch = 64, seed = 0;
  double rate = 1e-3, mean = 0, deviation = 1;
  int threads = 1;
  bool resume = false, json = false;
  std::vector<std::string> freeze;
};
struct profile_arguments : model_arguments {
  std::string out;
  std::vector<std::string> inputs;
  int bins = 2048;
  bool json = false;
};
struct quantize_arguments : model_arguments {
  std::string profile, schema = "asymmetric", calibration = "extrema", out;
  double percentile = 99.99, largest_error = std::numeric_limits<double>::infinity();
  int weight_bits = 8;
  std::vector<std::string> keep_float, inputs;
  bool json = false;
};
struct export_arguments : model_arguments {
  std::string out;
  std::int64_t opset = 0, external_above = std::int64_t(3) << 29;
  bool json = false;
};
struct source_arguments : model_arguments {
  std::string out;
  bool json = false;
};
struct bundle_arguments : model_arguments {
  std::string name, out = ".", api = "static", set, target, cpu;
  std::vector<std::string> entries;
  bool source = false, text = false, module_interface = false, graph = false, instrument = false, dump_tensors = false,
       optimize = false, json = false;
};

void show(const show_arguments& a);
void run(const run_arguments& a);
void bench(const bench_arguments& a);
void plan(const plan_arguments& a);
void draw(const draw_arguments& a);
void train(const train_arguments& a);
void profile(const profile_arguments& a);
void quantize(const quantize_arguments& a);
void write_onnx(const export_arguments& a);
void write_source(const source_arguments& a);
void write_bundle(const bundle_arguments& a);
void doctor(const doctor_arguments& a);

// ---- nets ------------------------------------------------------------------------------------------------------------

/// Reads MODEL: NAME.onnx, with the given input options; NAME or NAME.json, with NAME.safetensors beside it.
/// Errors: those of `onnx::load` and `load_net`; value_error for shapes or values given for a saved net.
lamina::saved_net load_model(const std::string& path, const given_inputs& given);
inline lamina::saved_net load_model(const model_arguments& a) { return load_model(a.model, a); }

/// The files to write for a net: NAME.onnx, or NAME.json and NAME.safetensors. Errors: unsupported_error for ONNX if
/// the tool was built without it.
std::vector<std::string> files_to_write(const std::string& out);
/// Writes a net to these files, the last one first. Errors: those of `onnx::save` and `save_net`.
void write_net(const std::string& out, const lamina::saved_net& net);

/// Parses an option NAME=VALUE; without `=` the name is that of the only input. Errors: value_error, which names
/// `model`, the given name, the existing inputs, and the closest match.
struct given {
  std::size_t input;
  std::string value;
};
given given_for(const std::string& model, const lamina::ir::program& p, const std::string& option);
/// Samples from options NAME=FILE.npy: the k-th files of all inputs form sample k.
std::vector<std::vector<lamina::any_tensor>> samples_of(const std::string& model, const lamina::ir::program& p,
                                                        const std::vector<std::string>& options);

/// Inputs from options NAME=FILE.npy; the others are empty. Errors: value_error for a duplicate, unsupported_error for
/// a net with an input that is not a tensor.
std::vector<lamina::any_tensor> inputs_of(const std::string& model, const lamina::ir::program& p,
                                          const std::vector<std::string>& options);

/// The extents of all inputs, as given by NAME=8x1x28x28. A remaining symbolic extent takes the value of its name in
/// these, or 1. Errors: value_error.
std::vector<lamina::shape> extents_of(const std::string& model, const lamina::ir::program& p,
                                      const std::vector<std::string>& shapes);

/// A net, and the input extents to analyze it with.
struct net_with_extents {
  lamina::saved_net net;
  std::vector<lamina::shape> extents;
};
/// Reads MODEL, with shapes also for a saved net; extents are those of `extents_of`. Errors: those of `load_model`;
/// value_error.
net_with_extents load_with_extents(const std::string& path, const given_inputs& given);
/// The same, but an ONNX file is read with all of these extents, so that everything that depends on them is resolved.
net_with_extents load_fixed(const std::string& path, const given_inputs& given);

/// Possible cause of a shape mismatch: inputs whose open extents default to 1, because no option set them. Empty if
/// there are none.
std::string note_on_extents(const lamina::ir::program& p, const std::vector<std::string>& shapes, const char* option);
/// Runs `f`; appends the note to shape errors.
template <class F> auto with_note(const std::string& note, F f) {
  try {
    return f();
  } catch (const lamina::shape_error& e) { throw lamina::shape_error(e.what() + note); }
}

/// While it lives, records the first SIGINT or SIGTERM, unless the signal was ignored; a second one ends the program at
/// once.
class signals {
 public:
  signals();
  ~signals();
  signals(const signals&) = delete;
  signals& operator=(const signals&) = delete;
  /// The recorded signal; 0: none.
  static int noted() noexcept;
  /// Check point outside of runs, between two files. Errors: stopped_error if a signal was recorded.
  static void check();
};
/// Stops runs of nets on a recorded signal: `lamina::stop_scope until(tool::noted_signal{});`.
struct noted_signal {
  bool stop_requested() const noexcept { return signals::noted() != 0; }
};

/// Runs `f`; prefixes its errors with the model's name unless they begin with a file.
template <class F> auto about(const std::string& model, F f) {
  try {
    return f();
  } catch (const lamina::file_error& e) {
    if (!std::string_view(e.what()).starts_with("bundle `")) throw;  // the message names no user file
    throw lamina::file_error(model + ": " + e.what());
  } catch (const lamina::unsupported_error& e) {
    if (std::string_view(e.what()).starts_with(model)) throw;
    throw lamina::unsupported_error(model + ": " + e.what());
  } catch (const lamina::stopped_error& e) {
    throw lamina::stopped_error(model + ": " + e.what());
  } catch (const lamina::error& e) {
    if (std::string_view(e.what()).starts_with(model)) throw;
    throw lamina::value_error(model + ": " + e.what());
  }
}

/// Checks that a file can be created or replaced, before any expensive work. Errors: file_error, which names it.
void check_writable(const std::string& file);

// ---- words -----------------------------------------------------------------------------------------------------------

template <class... T> std::string text_of(const T&... parts) {
  lamina::message_text t;
  ((t << parts), ...);
  return t.string();
}
/// Suffix for a message about an unknown word: the closest known word, or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& there);
/// A count with a unit prefix: 431, 12.5 k, 3.2 M.
std::string counted(double n);
/// Prints a table: columns are as wide as needed; those after the first `left_columns` are right-aligned.
void print_table(const std::vector<std::vector<std::string>>& lines, std::size_t left_columns);

}  // namespace tool
