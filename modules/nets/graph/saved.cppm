// Nets from other models and from files, with what their blobs hold.
export module lamina:graph.saved;
import :core;
import :graph;
import :graph.model;
import :graph.workspace;
import :model;
import :parameter;
import :program;
import :saved;
import lamina.std;

namespace lamina::graph {

/// A program as a net: inputs and states become external blobs, outputs and states that it assigns are written, all under
/// their names. Errors: state_error where an output has the name of an input or a state.
export net net_of(std::string_view name, const program& p, const origin& = {});
/// The same; blobs that are in the store are saved with their kind there, as trained parameters.
export net net_of(std::string_view name, const program& p, const parameter_store& states, const origin& = {});
/// The inference of a model as a net, which can be run, added to and saved; parameters are external blobs by their names,
/// which `feed` gives to a workspace.
export template <const auto& Topology, class... Rest>
net net_of(std::string_view name, const lamina::model<Topology, Rest...>& m, const origin& = {}) {
  return net_of(name, m.core().inference(), m.parameters());
}
/// Copies all states of a store into blobs: `feed(ws, m.parameters())`.
export void feed(workspace& ws, const parameter_store& states);

/// The present state of a net: its program, and the blobs of the workspace that it assigns or that are parameters of its
/// model. Other external blobs are inputs. Parameters of a model are told from statistics; other blobs are untrained
/// parameters if the net only reads them, and optimizer states if it assigns them.
/// Errors: value_error for a missing blob, with its name and the net's.
export saved_net snapshot(const net& n, const workspace& ws, const origin& = {});
/// The part of a net that computes some blobs from others, which are the inputs in this order; every other external blob
/// that it needs is a state with its value in the workspace. Errors: value_error for names that are no blobs of the net, and
/// where the workspace lacks one; shape_error, type_error where it holds another type than the net takes.
export saved_net snapshot(const net& n, const workspace& ws, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const origin& = {});

/// Writes a net and the blobs that it assigns or that are parameters of its model, as they are in the workspace:
/// NAME.json and NAME.safetensors, which the tool and `load_net` read as well. Other external blobs stay inputs.
/// Errors: as `snapshot`, beginning with the file; as `save_net`.
export void save(const std::string& path, const net& n, const workspace& ws, const origin& = {});
/// Reads a net and feeds its blobs to a workspace. Errors: as `load_net`.
export net load(const std::string& path, workspace& into, const origin& = {});

/// Writes a model: its net with parameters, slots and counters as `save` does, and NAME_init, the net that fills them. It can
/// go on training from there.
export void save(const std::string& path, const model& m, const workspace& ws, const origin& = {});
/// Reads a model and feeds its blobs to a workspace; gradients are not added again. Errors: as `load_net`; file_error
/// where the files hold no model.
export std::unique_ptr<model> load_model(const std::string& path, workspace& into, const origin& = {});

}  // namespace lamina::graph
