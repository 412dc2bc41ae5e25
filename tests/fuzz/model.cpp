// The files of a model by name. The fuzzer supplies one: the program of the net or of its initialization, with weights
// made to fit, or the bytes of the weights. A model that loads can be written again.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "examine.h"
#include "scratch.h"

import lamina;

using namespace lamina;
using namespace lamina::ir;

namespace {

constexpr std::int64_t max_elements = 1 << 16;

struct saved {
  scratch_folder folder;
  struct part {
    saved_net net;
    std::string bytes;
  } main, init;
  saved() {
    graph::model m("m", {.seed = 3});
    {
      graph::model::scope here(m);
      const value x = m.input("x", {dtype::float32, {3, 4, 2, 2}});
      const value y = m.main().output("y", graph::fc(graph::spatial_bn(x, {.name = "bn"}), 2, {.name = "fc"}));
      m.add_gradient_operators({reduce_sum(square(y))});
      m.add_updates(optim::adam{});
    }
    graph::workspace ws;
    ws.run_once(m.init());
    graph::save(folder / "m", m, ws);
    main = {load_net(folder / "m"), bytes_of(folder / "m.safetensors")};
    init = {load_net(folder / "m_init"), bytes_of(folder / "m_init.safetensors")};
    // LAMINA_FUZZ_SEED: writes a seed corpus there: inputs of `examine`, the first letter selecting the file.
    if (const char* to = std::getenv("LAMINA_FUZZ_SEED")) {
      const std::string seeds[] = {"a" + main.net.program->to_json(), "b" + init.net.program->to_json(),
                                   "c" + main.bytes, "d" + init.bytes};
      for (const auto& s : seeds)
        write_bytes(to + std::string("/") + s[0], reinterpret_cast<const unsigned char*>(s.data()), s.size());
    }
  }
};

// Writes another program over the file's own, unless one of its states is large or has unknown extents.
bool write_program(const std::string& path, std::string_view json, const saved_net& like) {
  const auto p = read_program(json, {}, "fuzz");
  parameter_store states;
  for (auto s : p->states()) {
    const node& n = p->at(s);
    if (!n.results[0].dims.is_static() || n.results[0].dims.size() > max_elements) return false;
    states.add(n.name, any_tensor(n.results[0]), state_role::parameter);
  }
  save_net(path, *p, states, like.metadata);
  return true;
}

}  // namespace

void examine(const unsigned char* data, unsigned long size) {
  static const saved model;
  if (size == 0) return;
  const bool of_init = data[0] % 2 == 0, weights = (data[0] - 'a') / 2 % 2 == 1;
  const auto& part = of_init ? model.init : model.main;
  const auto& other = of_init ? model.main : model.init;
  const std::string path = model.folder / (of_init ? "m_init" : "m");
  save_net(model.folder / (of_init ? "m" : "m_init"), *other.net.program, other.net.states, other.net.metadata);
  try {
    if (weights) write_bytes(path + ".safetensors", data + 1, size - 1);
    else if (!write_program(path, {reinterpret_cast<const char*>(data) + 1, size - 1}, part.net)) return;
    graph::workspace ws;
    const auto m = graph::load_model(model.folder / "m", ws);
    graph::save(model.folder / "again", *m, ws);
  } catch (const file_error&) {
  } catch (const unsupported_error&) {}
}
