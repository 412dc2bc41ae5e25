// Networks compiled ahead of time: a plan written out as an object file that runs with no library at all. The kernels are
// those of the process, taken from the library's own archives, and so are the bits.
export module lamina.bundle;
export import :write;
