package dev.starling.distributed.hostile;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * One rank of a ring that a stranger attacks; rank 0 also runs the coordinator. Trains the same network again and
 * again, as fast as it can, and prints the bits of the weights after each training: they must always be the same. The
 * line {@code mark} makes it print the number of steps so far and the time, {@code stop} ends it.
 */
final class RingProgram implements TrainingListener {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    private static final int WORLD = 2;
    private static final int STEPS = 24;
    private static final int BATCH = 32;
    private static final int INPUTS = 64;
    private static final int HIDDEN = 256;
    private static final int CLASSES = 16;
    /** That of an Ethernet. */
    private static final String MTU = "1408";
    private static final int BUCKET = 32 << 10;

    private final Map<String, String> arguments = new HashMap<>();
    private volatile long steps;
    private volatile boolean stops;

    private RingProgram(String[] pairs) {
        for (String each : pairs) {
            arguments.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        }
    }

    /** Arguments, {@code name=value}: provider, secret, port, coordinator's port, rank, directory, term (of Aeron). */
    public static void main(String[] arguments) {
        Threads.set(1);
        RingProgram program = new RingProgram(arguments);
        Thread.ofPlatform().daemon().name("listener").start(program::listen);
        int status = 1;
        try {
            program.run();
            status = 0;
        } catch (RuntimeException e) {
            print("failed " + e);
        }
        System.exit(status);
    }

    private static void print(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private void listen() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("mark ")) {
                    print(line + ' ' + steps + ' ' + System.nanoTime());
                }
                stops |= line.equals("stop");
            }
            Runtime.getRuntime().halt(2); // The process that started this one has ended.
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the configuration of a process without shared memory, as between hosts. */
    static TransportConfig transport(String provider, String secret, int port, String directory, String term) {
        TransportConfig config = TransportConfig.of(provider, Secret.ofHex(secret)).at("127.0.0.1", port)
                .sharedMemory(false).directory(Path.of(directory));
        return provider.equals("aeron") ? config.option("term", term).option("mtu", MTU) : config;
    }

    private TransportConfig transport(String port) {
        return transport(arguments.get("provider"), arguments.get("secret"), Integer.parseInt(arguments.get(port)),
                arguments.get("directory"), arguments.get("term"));
    }

    private void run() {
        if (!arguments.get("rank").equals("0")) {
            train(1);
            return;
        }
        Transport carrier = Transport.open(transport("coordinator"));
        try (CoordinatorThread thread = CoordinatorThread.start(Coordinator.over(carrier, WORLD,
                Coordinator.OnLoss.END, 1, TIMEOUT))) {
            train(0);
            thread.awaitDone(TIMEOUT);
        } finally {
            print("refused " + carrier.counters().refused());
        }
    }

    private void train(int rank) {
        try (Group group = Group.join(GroupConfig.of(transport("port"), "127.0.0.1:" + arguments.get("coordinator"))
                .place(rank, WORLD).joinTimeout(TIMEOUT).timeout(TIMEOUT))) {
            print("joined " + group.rank());
            // A stop may reach the ranks at different times; both stop after the same step, which ends the last round.
            boolean complete = true;
            for (int round = 0; complete; round++) {
                long before = steps;
                int bits = round(group);
                complete = steps == before + STEPS;
                if (complete) {
                    print("round " + round + ' ' + Integer.toHexString(bits));
                }
            }
        }
        print("done");
    }

    private int round(Group group) {
        Generator same = Generator.seeded(1);
        try (Scope scope = Scope.open("round");
                Layer model = Sequential.of(Linear.of(INPUTS, HIDDEN, same), new Relu(),
                        Linear.of(HIDDEN, CLASSES, same));
                Optimizer sgd = Sgd.over(model).rate(0.05).momentum(0.9).build();
                DistributionStrategy ring = RingAllReduce.over(group).bucketBytes(BUCKET).build()) {
            Tensor x = same.normal(STEPS * BATCH, INPUTS);
            Tensor y = x.sum(1).gt(0).to(DType.I64);
            try (DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(BATCH).workers(0).shuffle().seed(2)
                    .build()) {
                Trainer.of(model, Loss.crossEntropy(), sgd).data(data).strategy(ring).epochs(1).listeners(this).build()
                        .run();
            }
            return model.state().values().stream().mapToInt(p -> Arrays.hashCode(p.value().toFloats())).sum();
        }
    }

    @Override
    public void stepEnded(Progress progress) {
        steps++;
        if (stops) {
            progress.stop();
        }
    }
}
