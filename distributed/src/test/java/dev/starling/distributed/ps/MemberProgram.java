package dev.starling.distributed.ps;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Role;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.stream.LongStream;

/** A server, or a worker whose gradients are all 1, in a process that a test may kill. */
final class MemberProgram {
    static final int COUNT = 5000;
    /** Rows that get a gradient of 1 in each step. */
    private static final long[] IDS = LongStream.range(0, 40).map(i -> i * i * 1_000_003).toArray();
    private static final int WIDTH = 5;
    static final Duration TIMEOUT = Duration.ofSeconds(40);

    private MemberProgram() {
    }

    private record Weights(Parameter weight) implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input;
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("weight", weight);
        }
    }

    static Group join(TransportConfig transport, String coordinator, int request, Role role) {
        return Group.join(GroupConfig.of(transport, coordinator).preferredRank(request).role(role)
                .joinTimeout(TIMEOUT).timeout(TIMEOUT));
    }

    /** Runs between two steps. */
    interface Step {
        /** Returns whether to continue; {@code weights} are followed by the rows. */
        boolean after(long step, float[] weights) throws InterruptedException;
    }

    /** Takes steps of -1; returns their number. */
    static long work(Group group, int number, int workers, Consistency consistency, Step each)
            throws InterruptedException {
        try (Scope scope = Scope.open("worker"); Parameter weight = Parameter.of(Tensor.full(DType.F32, 0, COUNT));
                Optimizer sgd = Sgd.over(new Weights(weight)).rate(1).build();
                EmbeddingTable table = EmbeddingTable.of("rows", 100, WIDTH).build();
                ParameterServer servers = ParameterServer.worker(group, number).workers(workers).tables(table)
                        .consistency(consistency).build()) {
            servers.start(TrainingState.of(new Weights(weight), sgd));
            Tensor ones = Tensor.full(DType.F32, 1, COUNT);
            Tensor rowOnes = Tensor.full(DType.F32, 1, IDS.length, WIDTH);
            long step = 0;
            boolean continues = true;
            while (continues) {
                servers.gradient(0, ones);
                table.push(IDS, rowOnes);
                servers.beforeStep(new Tensor[]{ones});
                servers.afterStep();
                float[] seen = Arrays.copyOf(weight.value().toFloats(), COUNT + IDS.length * WIDTH);
                try (Scope rows = Scope.open("rows")) {
                    System.arraycopy(table.pull(IDS).toFloats(), 0, seen, COUNT, IDS.length * WIDTH);
                }
                continues = each.after(++step, seen);
            }
            servers.finish();
            return step;
        }
    }

    public static void main(String[] args) throws InterruptedException {
        TransportConfig transport = TransportConfig.of("aeron", Secret.ofHex(args[2]))
                .livenessTimeout(Duration.ofSeconds(3));
        int number = Integer.parseInt(args[4]);
        boolean serves = args[0].equals("server");
        try (Group group = join(transport, args[1], number, serves ? new Role.Server(0) : new Role.Worker())) {
            if (serves) {
                ParameterServer.serve(group, ServerConfig.in(Path.of(args[3])).journalBytes(2 << 20));
            } else {
                System.out.println("worker " + number + " begins");
                work(group, number, 3, new Consistency.Stale(2), (step, weights) -> {
                    System.out.println("step " + step);
                    return true;
                });
            }
        }
    }
}
