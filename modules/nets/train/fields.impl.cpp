// Binding of sample fields to the inputs of a model, by name or in order.
module lamina:train.fields.impl;
import :core;
import :data.set;
import :io;
import :model;
import lamina.std;

namespace lamina {

/// A data set whose fields are the model's inputs in order, then the targets. If every input is the name of a field,
/// they are bound by name, and the other fields follow in order; if only some are, these must be at their input's
/// position. Errors: value_error, whose message begins with `caller`, for a field that has the name of one input and the
/// position of another.
sample_source bound_to_inputs(const sample_source& data, const model_definition& d, std::string_view caller,
                              std::string_view name) {
  const auto names = data.names();
  std::vector<std::size_t> fields;  // field of each input
  std::vector<std::string_view> missing;
  for (const auto& input : d.inputs) {
    const auto found = std::find(names.begin(), names.end(), std::string_view(input.name));
    fields.push_back(static_cast<std::size_t>(found - names.begin()));
    if (input.name.empty() || found == names.end()) fields.back() = names.size(), missing.push_back(input.name);
  }
  if (missing.empty()) {
    bool in_order = true;
    for (std::size_t i = 0; i < fields.size(); ++i) in_order = in_order && fields[i] == i;
    if (in_order) return data;
    for (std::size_t f = 0; f < names.size(); ++f)
      if (std::find(fields.begin(), fields.end(), f) == fields.end()) fields.push_back(f);
    return data.chosen(view<const std::size_t>(fields));
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i] == names.size() || fields[i] == i) continue;
    text t;
    t << caller << ": input `" << printable(d.inputs[i].name) << "` of the model is input " << i
      << ", but the field of that name is field " << fields[i] << " of the " << name << ", which has no field `"
      << printable(missing[0])
      << "`; name a field for each input with `dataset::named`, or order the fields as the inputs";
    detail::raise(error_kind::value, t);
  }
  return data;
}

}  // namespace lamina
