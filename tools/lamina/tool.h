// The commands and what they share. Include it after <string>, <vector> and `import lamina;`.
#pragma once

namespace tool {

// ---- commands, one in each file; main.cpp reads what they are given --------------------------------------------------

/// What is given of a net's inputs: shapes, NAME=8x1x28x28, and of an ONNX model values, NAME=NUMBER or NAME=FILE.npy, of those that
/// become constants.
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
/// Of a net that is planned.
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
  bool json = false;
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

/// Reads MODEL: NAME.onnx, with what is given of its inputs; NAME or NAME.json, with NAME.safetensors beside it.
/// Errors: those of `onnx::load` and `load_net`; value_error where a saved net is given shapes or values.
lamina::saved_net load_model(const std::string& path, const given_inputs& given);
inline lamina::saved_net load_model(const model_arguments& a) { return load_model(a.model, a); }

/// The files of a net to write: NAME.onnx, or NAME.json and NAME.safetensors. Errors: unsupported_error for one of ONNX where the tool
/// has none.
std::vector<std::string> files_to_write(const std::string& out);
/// Writes a net as these files, the last one first. Errors: those of `onnx::save` and `save_net`.
void write_net(const std::string& out, const lamina::saved_net& net);

/// NAME=VALUE as an option gives it; without `=` the name is that of the only input. Errors: value_error naming `model`, what
/// was given, the inputs that there are, and the nearest.
struct given {
  std::size_t input;
  std::string value;
};
given given_for(const std::string& model, const lamina::ir::program& p, const std::string& option);
/// The samples of options NAME=FILE.npy: the k-th files of all inputs are the k-th one.
std::vector<std::vector<lamina::any_tensor>> samples_of(const std::string& model, const lamina::ir::program& p,
                                                        const std::vector<std::string>& options);

/// The inputs that options name, NAME=FILE.npy; the others are empty. Errors: value_error for one that is given twice,
/// unsupported_error for a net with an input that is no tensor.
std::vector<lamina::any_tensor> inputs_of(const std::string& model, const lamina::ir::program& p,
                                          const std::vector<std::string>& options);

/// The extents of all inputs: those given as NAME=8x1x28x28; what is left open then is what its name stands for in
/// these, or 1. Errors: value_error.
std::vector<lamina::shape> extents_of(const std::string& model, const lamina::ir::program& p,
                                      const std::vector<std::string>& shapes);

/// A net, and the extents of its inputs that it is looked at with.
struct net_with_extents {
  lamina::saved_net net;
  std::vector<lamina::shape> extents;
};
/// Reads MODEL, also a saved net that shapes are given for; extents as `extents_of` gives them. Errors: as `load_model`, value_error.
net_with_extents load_with_extents(const std::string& path, const given_inputs& given);
/// The same; an ONNX file is read with all of these extents, so that what follows from them is decided.
net_with_extents load_fixed(const std::string& path, const given_inputs& given);

/// What a mismatch of shapes may come from: inputs whose open extents count as 1, since no option gave them. Empty where none do.
std::string note_on_extents(const lamina::ir::program& p, const std::vector<std::string>& shapes, const char* option);
/// Runs `f`; shape errors end with the note.
template <class F> auto with_note(const std::string& note, F f) {
  try {
    return f();
  } catch (const lamina::shape_error& e) { throw lamina::shape_error(e.what() + note); }
}

/// While it lives, a first SIGINT or SIGTERM is noted, where it was not ignored; a second one ends the program at once.
class signals {
 public:
  signals();
  ~signals();
  signals(const signals&) = delete;
  signals& operator=(const signals&) = delete;
  /// The signal that was noted; 0: none.
  static int noted() noexcept;
  /// For what is no run, between two files. Errors: stopped_error if a signal was noted.
  static void check();
};
/// Runs of nets end when a signal was noted: `lamina::stop_scope until(tool::noted_signal{});`.
struct noted_signal {
  bool stop_requested() const noexcept { return signals::noted() != 0; }
};

/// Runs `f`; its errors begin with the model's name if they do not begin with a file.
template <class F> auto about(const std::string& model, F f) {
  try {
    return f();
  } catch (const lamina::file_error& e) {
    if (!std::string_view(e.what()).starts_with("bundle `")) throw;  // which names no file of the user's
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

/// Whether a file can be made or replaced: so that work is not done for nothing. Errors: file_error naming it.
void check_writable(const std::string& file);

// ---- words -----------------------------------------------------------------------------------------------------------

template <class... T> std::string words(const T&... parts) {
  lamina::message_text t;
  ((t << parts), ...);
  return t.string();
}
/// The end of a sentence on a word that is not there: the one that may have been meant, or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& there);
/// Elements or bytes with a unit: 431, 12.5 k, 3.2 M.
std::string counted(double n);
/// A table: columns as wide as they need be, numbers of the last columns to the right.
void print_table(const std::vector<std::vector<std::string>>& lines, std::size_t left_columns);

}  // namespace tool
