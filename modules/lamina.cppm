// The module `lamina`: every room, in the order of the floors.
export module lamina;
export import :core;          // text, diagnostics, named values, error types
export import :cache.key;     // what a cache may be asked by
export import :cache.lru;     // caches for one thread
export import :cache;         // caches for many, which build a value once
export import :shape;         // dimensions, shapes, extents and their arithmetic
export import :policy;        // compile-time choices as values, inherited by sublayers
export import :policy.kinds;  // those that layers read
export import :context;       // instruction set, memory, threads
export import :stop;          // ending runs from outside
export import :dtype;         // element types
export import :tensor;        // tensors and data without storage
export import :tensor.growable;
export import :any_value;         // tensors, sequences of them, and either that may be missing
export import :random;            // random numbers that depend on their position alone
export import :random.sample;     // drawing by scores
export import :io;                // safetensors, npy, npz, idx, files replaced as a whole or not at all
export import :program;           // the graph of operations that every door leads to
export import :product_type;      // what products round their operands to
export import :emission;          // how an operation becomes kernel calls
export import :host;              // how an operation runs on the host
export import :initializer;       // how parameters begin
export import :parameter;         // named states that outlive a run
export import :parameter.naming;  // how they are named, shared, saved and loaded
export import :op;                // how operations are defined and called
export import :op.elementwise;
export import :op.activation;
export import :op.shape;
export import :op.view;
export import :op.reduce;
export import :op.sum;
export import :op.tile;
export import :op.index;
export import :op.linear;
export import :op.nn;
export import :op.normalize;
export import :op.attention;
export import :op.sized;           // results of which an extent is counted when they run
export import :op.computed_shape;  // results whose shape an operand holds
export import :op.coordinates;     // elements and rows at coordinates
export import :op.reduce_by;       // reductions over axes that are computed
export import :op.contraction;     // einsum, determinants
export import :op.signal;          // Fourier transforms, windows
export import :op.sample;          // weighted sums and maxima of elements at tabled positions
export import :op.channels;        // channels of images in another order
export import :op.spatial;         // convolution, pooling, resizing of images and volumes
export import :op.loss;
export import :op.weighted_loss;
export import :op.ctc_loss;
export import :op.quantized;
export import :op.random;
export import :op.seeded_random;
export import :op.control;
export import :op.host;  // control flow on the host, sequences, optionals
export import :op.text;  // strings
export import :expression.data;
export import :op.recurrent;
export import :structure;   // operations by name, programs from files
export import :expression;  // typed lazy expressions
export import :expression.same;
export import :expression.dynamic;
export import :gradient;  // the reverse walk
export import :gradient.typed;
export import :passes;         // passes over a program
export import :plan;           // a program made ready for concrete shapes
export import :execute;        // running plans
export import :plan_cache;     // plans by what they depend on
export import :session;        // programs with their states
export import :execute.typed;  // evaluating expressions
export import :quantize;       // products in int8
export import :layer;          // what a layer is
export import :layer.activation;
export import :layer.arithmetic;
export import :layer.linear;
export import :layer.pool;
export import :layer.regular;
export import :layer.rearrange;
export import :layer.index;
export import :layer.normalize;
export import :layer.attention;
export import :layer.combine;
export import :layer.loss;
export import :layer.source;
export import :layer.recurrent;
export import :topology.analysis;
export import :topology;               // sequential, topology, connect
export import :topology.policy_scope;  // scopes that know policies
export import :topology.check;         // diagnostics for models
export import :model;                  // a topology with its parameters
export import :reference;              // one set of weights, many threads
export import :stream;                 // sequences served position by position
export import :show;                   // tables and drawings of nets
export import :saved;                  // nets in files: structure and states
export import :adapter;                // low-rank adapters of weights
export import :transfer;               // what of a model is trained
export import :protocol.call;          // what layers hand out: operands by port
export import :protocol.collector;     // gradients of parameters, summed by name
export import :protocol.core;
export import :protocol;              // train_layer, infer_layer: dicts of operands forward, of gradients backward
export import :protocol.propagation;  // who is trained, who hands gradients on
export import :serve;                 // single samples from many threads, computed in batches
export import :data;                  // data sets of images
export import :data.set;              // data sets of any samples
export import :data.batch;            // batches of samples
export import :data.compose;          // data sets made of data sets
export import :data.folder;           // files in folders, by class
export import :data.functions;        // what composes them
export import :data.loader;           // batches that threads load ahead
export import :data.augment;          // changes of pictures
export import :data.stream;           // batches of samples whose number is not known
export import :data.change;           // changes of whole batches
export import :data.table;            // rows of tensors and arrays, tables of CSV files
export import :tokenizer;             // text as numbers
export import :text;                  // lines, and windows of tokens
export import :audio;                 // sound in files, and how it changes
export import :audio.features;        // its spectra
export import :audio.folder;          // sounds by class
export import :train.loss;            // losses
export import :train.metric;          // metrics
export import :train.schedule;        // schedules of rates
export import :train.optim;           // optimizers
export import :train.compose;         // optimizers made of optimizers
export import :train.replicas;        // processes that train one model together
export import :train.observe;         // observers of training
export import :train.chart;           // pictures of numbers
export import :train.precision;       // half precision, scaling of losses
export import :train;                 // fit, checkpoints
export import :train.search;          // looking for a learning rate
export import :train.inspect;         // what is in weights, gradients and predictions
export import :gradcheck;             // gradients against central differences
export import :graph.scope;           // names and devices of what is added to nets
export import :graph.fill;            // how blobs begin
export import :graph;                 // nets put together by name while a program runs
export import :graph.workspace;       // where they run
export import :graph.model;           // nets with parameters, and layer functions
export import :graph.saved;           // nets of models, and nets in files
import lamina.std;

// What programs that include no header, or that include one after the import, need of the standard library.
#if __has_include(<bits/c++config.h>)  // libstdc++
// Its <ext/numeric_traits.h> has members of this name, which Clang takes for an identifier from the first of them on. After an
// import it skips that one, since the module has it, and refuses the next; unless the module says here what the name is.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wkeyword-compat"
namespace lamina::detail {
struct identifier_of_libstdcxx {
  static const bool __is_signed = false;  // NOLINT(bugprone-reserved-identifier)
};
}  // namespace lamina::detail
#pragma clang diagnostic pop

// Iteration over a std::vector or std::span that a function returns.
export namespace __gnu_cxx {
using __gnu_cxx::operator==;
using __gnu_cxx::operator<=>;
using __gnu_cxx::operator-;
}  // namespace __gnu_cxx
#endif
// Comparison of names, and with libc++ of iterators.
export namespace std {
using std::operator==;
using std::operator!=;
using std::operator<=>;
}  // namespace std
