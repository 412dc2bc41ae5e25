// Training on several processes by MPI: `mpirun -n 4 program`.
//
//     import lamina;
//     import lamina.mpi;
//     fit(net, data, loss::cross_entropy{}, optim::adam{}, {.epochs = 5, .batch = 256, .replicas = mpi::world()});
export module lamina.mpi;
import lamina;
import lamina.std;

export namespace lamina::mpi {

/// The processes that `mpirun` has started, 1, 2, 4 or 8 and so on of them, as replicas of one training; one process where the program was
/// started without it. The first call initializes MPI, unless the program has, and has the end of the program finalize it; calls
/// come from one thread at a time. `fail` writes one line and ends all processes.
/// Errors: state_error where MPI cannot be initialized, was finalized already, or does not let several threads of a process be.
std::shared_ptr<replicas> world();

}  // namespace lamina::mpi
