// Nets from other models and from files, with the values of their blobs.
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

/// Converts a program to a net under the same names: inputs and states become external blobs; outputs and assigned
/// states are written. Errors: state_error if an output has the name of an input or a state.
export net net_of(std::string_view name, const program& p, const origin& = {});
/// The same; blobs found in the store keep their role and trainability when the net is saved.
export net net_of(std::string_view name, const program& p, const parameter_store& states, const origin& = {});
/// The inference program of a model as a net, to run, extend or save. Parameters are external blobs under their names;
/// `feed` copies them to a workspace.
export template <const auto& Topology, class... Rest>
net net_of(std::string_view name, const lamina::model<Topology, Rest...>& m, const origin& = {}) {
  return net_of(name, m.core().inference(), m.parameters());
}
/// Copies all states of a store into blobs: `feed(ws, m.parameters())`.
export void feed(workspace& ws, const parameter_store& states);

/// Snapshot of a net: its program, and the values of the blobs that it assigns or that are parameters of its
/// model. Other external blobs are inputs. Parameters and statistics of a model keep their roles; other blobs are
/// untrained parameters if the net only reads them, and optimizer states if it assigns them.
/// Errors: value_error for a missing blob, with its name and the net's.
export saved_net snapshot(const net& n, const workspace& ws, const origin& = {});
/// The part of a net that computes the outputs from the inputs, in this order; every other external blob
/// that it needs becomes a state with its value in the workspace. Errors: value_error for names that are not blobs of
/// the net and for blobs missing in the workspace; shape_error, type_error for a blob whose type the net does not
/// accept.
export saved_net snapshot(const net& n, const workspace& ws, const std::vector<std::string>& inputs,
                          const std::vector<std::string>& outputs, const origin& = {});

/// Writes a net, and the workspace's values of the blobs that it assigns or that are parameters of its model, as
/// NAME.json and NAME.safetensors; the command-line tool and `load_net` read them, too. Other external blobs stay
/// inputs.
/// Errors: as `snapshot`, beginning with the file; as `save_net`.
export void save(const std::string& path, const net& n, const workspace& ws, const origin& = {});
/// Reads a net and feeds its blobs to a workspace. Errors: as `load_net`.
export net load(const std::string& path, workspace& into, const origin& = {});

/// Writes a model for resuming its training: its net with parameters, slots and counters, as `save` above, and the net
/// NAME_init, which initializes them.
export void save(const std::string& path, const model& m, const workspace& ws, const origin& = {});
/// Reads a model and feeds its blobs to a workspace; does not add gradients again. Errors: as `load_net`; file_error
/// if the files do not contain a model.
export std::unique_ptr<model> load_model(const std::string& path, workspace& into, const origin& = {});

}  // namespace lamina::graph
