// The module `lamina`: every room, in the order of the floors.
export module lamina;
export import :core;         // text, worded errors, named values, error types
export import :shape;        // dimensions, shapes, extents and their arithmetic
export import :policy;       // compile-time choices as values, inherited by sublayers
export import :context;      // instruction set, memory, threads
export import :dtype;        // element types
export import :tensor;       // tensors and data without storage
export import :random;       // random numbers that depend on their position alone
export import :io;           // safetensors, idx, files replaced as a whole or not at all
export import :data;         // data sets of images
