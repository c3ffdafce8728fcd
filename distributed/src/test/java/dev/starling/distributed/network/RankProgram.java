package dev.starling.distributed.network;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * One rank on a host of its own; rank 0 also runs the coordinator. Prints every tenth step and the result of the run,
 * one line each. Stops training when it reads the line {@code stop}.
 */
final class RankProgram implements TrainingListener {
    private static final long STEP_NS = 2_000_000;
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private final Map<String, String> arguments = new HashMap<>();
    private Group group;
    private volatile boolean stops;

    private RankProgram(String[] pairs) {
        for (String each : pairs) {
            arguments.put(each.substring(0, each.indexOf('=')), each.substring(each.indexOf('=') + 1));
        }
    }

    /**
     * Arguments, {@code name=value}: provider, secret (hexadecimal), host, port, silence (ms), directory, coordinator,
     * rank, world, strategy (ring, elastic, gossip, ps or ps-sync; with the last two the last rank serves), steps.
     */
    public static void main(String[] arguments) {
        RankProgram program = new RankProgram(arguments);
        Thread.ofPlatform().daemon().name("listener").start(program::listen);
        int status = 1;
        try {
            program.run();
            status = 0;
        } catch (PeerLostException e) {
            print("lost " + e.rank() + ' ' + e.silentFor().toMillis() + ' ' + e.getMessage());
        } catch (DistributedException | TransportException e) {
            print("failed " + e.getMessage());
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
                stops |= line.equals("stop");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private TransportConfig transport(String host, int port) {
        TransportConfig config = TransportConfig.of(arguments.get("provider"),
                Secret.ofHex(arguments.get("secret"))).at(host, port).sharedMemory(false)
                .livenessTimeout(Duration.ofMillis(Long.parseLong(arguments.get("silence"))))
                .directory(Path.of(arguments.get("directory")));
        return arguments.get("provider").equals("ucx") ? config.option("tls", "tcp") : config;
    }

    private void run() {
        String coordinator = arguments.get("coordinator");
        int rank = Integer.parseInt(arguments.get("rank"));
        TransportConfig own = transport(arguments.get("host"), Integer.parseInt(arguments.get("port")));
        if (rank > 0) {
            train(rank, own, coordinator);
            return;
        }
        int colon = coordinator.lastIndexOf(':');
        Coordinator.OnLoss onLoss = arguments.get("strategy").equals("ring") ? Coordinator.OnLoss.END
                : Coordinator.OnLoss.REFORM;
        Transport carrier = Transport.open(transport(coordinator.substring(0, colon),
                Integer.parseInt(coordinator.substring(colon + 1))));
        try (CoordinatorThread thread = CoordinatorThread.start(Coordinator.over(carrier,
                Integer.parseInt(arguments.get("world")), onLoss, 1, TIMEOUT))) {
            train(rank, own, coordinator);
            thread.awaitDone(TIMEOUT);
        } finally {
            print("refused " + carrier.counters().refusedStrangers());
        }
    }

    private void train(int rank, TransportConfig own, String coordinator) {
        GroupConfig config = GroupConfig.of(own, coordinator).place(rank, arguments.get("strategy").startsWith("ps")
                ? workers() : rank + 1).host(arguments.get("host"))
                .joinTimeout(TIMEOUT).timeout(TIMEOUT);
        try (Group joined = Group.join(config)) {
            group = joined;
            print("joined " + group.rank());
            if (arguments.get("strategy").startsWith("ps") && rank == workers()) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                print("done");
                return;
            }
            float[] weights = LineFit.train(strategy(rank), Integer.parseInt(arguments.get("steps")), this);
            StringBuilder text = new StringBuilder();
            for (float weight : weights) {
                text.append(' ').append(Integer.toHexString(Float.floatToRawIntBits(weight)));
            }
            print("done" + text);
        }
    }

    private int workers() {
        return Integer.parseInt(arguments.get("world")) - 1;
    }

    private DistributionStrategy strategy(int rank) {
        return switch (arguments.get("strategy")) {
            case "ring" -> RingAllReduce.over(group).bucketBytes(2048).build();
            case "elastic" -> RingAllReduce.over(group).bucketBytes(2048).elastic().build();
            case "gossip" -> Gossip.of(group, 2);
            case "ps" -> ParameterServer.worker(group, rank).workers(workers()).build();
            case "ps-sync" -> ParameterServer.worker(group, rank).workers(workers())
                    .consistency(new Consistency.Synchronous()).build();
            default -> throw new IllegalArgumentException(arguments.toString());
        };
    }

    @Override
    public void stepEnded(Progress progress) {
        if (progress.step() % 10 == 0) {
            print("step " + progress.step() + ' ' + group.world());
        }
        if (stops) {
            progress.stop();
        }
        LockSupport.parkNanos(STEP_NS);
    }
}
