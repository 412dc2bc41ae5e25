// Writes the files of a bundle.
module lamina.bundle:write.impl;
import :image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

namespace {

/// The weights as numbers for an array initializer, twenty per line.
std::string numbers_of(view<const std::byte> bytes) {
  std::string s;
  s.reserve(bytes.size() * 5 + bytes.size() / 20);
  char number[8];
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::snprintf(number, sizeof number, "0X%02X,", static_cast<unsigned>(bytes[i]));
    s += number;
    if (i % 20 == 19 || i + 1 == bytes.size()) s += '\n';
  }
  return s;
}

std::vector<std::string> globals_of(const image& bundle, const options& o) {
  std::vector<std::string> names;
  for (const auto& e : bundle.entries) {
    names.insert(names.end(), {e.name, e.name + "_self_test"});
    if (o.api == api::dynamic) names.push_back(e.name + "_config");
    if (e.states()) names.push_back(e.name + "_reset");
  }
  names.push_back(bundle.name + "_check_weights");
  return names;
}

}  // namespace

report write(view<const program_entry> parts, const options& o) {
  const image bundle = image_of(parts, o);
  const std::string base = o.directory + "/" + bundle.name, header = header_of(bundle, o),
                    source = source_of(bundle, o);
  std::error_code failed;
  std::filesystem::create_directories(o.directory, failed);
  if (failed) {
    text t;
    t << o.directory << ": the folder cannot be created: " << failed.message();
    lamina::detail::raise(error_kind::file, t);
  }
  report made{{}, bundle.weights.size(), bundle.entries[0].variable_bytes, bundle.entries[0].activation_bytes};
  auto put = [&](std::string_view ending, const void* data, std::size_t bytes) {
    made.files.push_back(base + std::string(ending));
    write_file_atomically(made.files.back(), [&](writer& w) { w.write(data, bytes); });
  };
  make_object(o.directory, bundle, header, source, globals_of(bundle, o), o);
  made.files.push_back(base + ".o");
  put(".h", header.data(), header.size());
  put(".weights", bundle.weights.data(), bundle.weights.size());
  if (o.source) put(".c", source.data(), source.size());
  if (o.text) {
    const auto numbers = numbers_of(bundle.weights);
    put(".weights.txt", numbers.data(), numbers.size());
  }
  if (o.module_interface) {
    const auto interface = interface_of(bundle, o);
    put(".cppm", interface.data(), interface.size());
  }
  if (o.graph)
    for (const auto& p : parts) {
      auto draw = [&](std::string_view ending, const std::string& text) {
        made.files.push_back(o.directory + "/" + p.name + std::string(ending));
        write_file_atomically(made.files.back(), [&](writer& w) { w.write(text); });
      };
      draw(".graph.dot", p.of.to_dot());
      draw(".graph.json", p.of.to_json());
    }
  return made;
}

report write(const program& p, const parameter_store& states, const options& o) {
  std::vector<program_entry> parts{{o.name, p, states, o.inputs}};
  for (const auto& e : o.entries) parts.push_back({e.name, p, states, e.inputs});
  return write(view<const program_entry>(parts), o);
}

report write(const graph::net& n, const graph::workspace& ws, const options& o, const origin&) {
  const auto whole = graph::snapshot(n, ws);
  return write(*whole.program, whole.states, o);
}
report write(const graph::net& n, const graph::workspace& ws, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const options& o, const origin&) {
  const auto part = graph::snapshot(n, ws, inputs, outputs);
  return write(*part.program, part.states, o);
}
report write(const graph::model& m, const graph::workspace& ws, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs, const options& o, const origin&) {
  return write(m.predictor(m.main().name(), inputs, outputs), ws, inputs, outputs, o);
}

}  // namespace lamina::bundle
