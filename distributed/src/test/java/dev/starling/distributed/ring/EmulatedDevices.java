package dev.starling.distributed.ring;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Backend;
import dev.starling.tensor.spi.BackendProvider;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import dev.starling.tensor.spi.Probe;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Devices emulated by the processor, one for each rank, and a library that sums over them when all ranks have called
 * it.
 */
public final class EmulatedDevices implements BackendProvider {
    /** Number of sums. */
    static final AtomicLong SUMS = new AtomicLong();

    /** Number of aborts after the group was left. */
    static final AtomicLong LATE = new AtomicLong();

    /** Number of memberships that were not closed. */
    static final AtomicLong OPEN = new AtomicLong();

    /** The name of the device that cannot join the others; empty if all can. */
    static volatile String broken = "";

    private static final Map<String, Team> TEAMS = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT = new AtomicLong();

    /** Returns the device of a rank. */
    static Device of(int rank) {
        return Device.of("played", rank);
    }

    @Override
    public String type() {
        return "played";
    }

    @Override
    public Probe probe() {
        return new Probe.Ready(4, "played devices");
    }

    @Override
    public Backend open(Device device) {
        Backend processor = Device.cpu().backend();
        return new Backend() {
            @Override
            public Allocator memory() {
                return processor.memory();
            }

            @Override
            public boolean hostVisible() {
                return processor.hostVisible();
            }

            @Override
            public Tensor[] run(Op op, Tensor[] inputs, Spec[] outputs) {
                return processor.run(op, inputs, outputs);
            }

            @Override
            public void upload(long hostAddress, long deviceAddress, long bytes) {
                processor.upload(hostAddress, deviceAddress, bytes);
            }

            @Override
            public void download(long deviceAddress, long hostAddress, long bytes) {
                processor.download(deviceAddress, hostAddress, bytes);
            }

            @Override
            public DeviceCollectives collectives() {
                return new Library(device);
            }
        };
    }

    private record Library(Device own) implements DeviceCollectives {
        @Override
        public String device() {
            return own.toString();
        }

        @Override
        public byte[] identifier() {
            return ("team " + NEXT.getAndIncrement()).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public DeviceGroup join(byte[] identifier, int rank, int world) {
            if (device().equals(broken)) {
                throw new TensorException(TensorException.Problem.DEVICE, "join", List.of(), "it broke", "mend it");
            }
            OPEN.incrementAndGet();
            return TEAMS.computeIfAbsent(new String(identifier, StandardCharsets.UTF_8), k -> new Team(world))
                    .join(rank);
        }
    }

    private static final class Team {
        private final EmulatedGroup[] places;
        private int there;

        Team(int world) {
            places = new EmulatedGroup[world];
        }

        synchronized EmulatedGroup join(int rank) {
            places[rank] = new EmulatedGroup(this);
            there++;
            return places[rank];
        }

        private static void set(Tensor x, double[] sums) {
            try (Scope scope = Scope.open()) {
                Tensor.apply(new Update.Assign(), x, Tensor.of(sums, sums.length).to(x.dtype()).to(x.device()));
            }
        }

        /** Performs the sums that all ranks have requested. */
        private void work() {
            while (there == places.length && List.of(places).stream().noneMatch(p -> p.asked.isEmpty())) {
                try (Scope scope = Scope.open()) {
                    Tensor sum = places[0].asked.peek().to(Device.cpu()).to(DType.F64);
                    for (int r = 1; r < places.length; r++) {
                        sum = sum.add(places[r].asked.peek().to(Device.cpu()).to(DType.F64));
                    }
                    double[] sums = sum.toDoubles();
                    for (EmulatedGroup place : places) {
                        Tensor x = place.asked.remove();
                        place.ended.add(() -> set(x, sums));
                    }
                }
                SUMS.incrementAndGet();
            }
        }
    }

    private static final class EmulatedGroup implements DeviceGroup {
        private final Team team;
        private final Queue<Tensor> asked = new ArrayDeque<>();
        /** Publishes the sums, as late as possible. */
        private final Queue<Runnable> ended = new ArrayDeque<>();
        private boolean gone;
        private boolean left;

        EmulatedGroup(Team team) {
            this.team = team;
        }

        private void check() {
            if (gone) {
                throw new TensorException(TensorException.Problem.CLOSED, "all-reduce", List.of(), "left", "join");
            }
        }

        @Override
        public boolean isDone() {
            synchronized (team) {
                check();
                return team.there == team.places.length && asked.isEmpty();
            }
        }

        @Override
        public void allReduce(Tensor x, Duration timeout) {
            synchronized (team) {
                check();
                asked.add(x);
                team.work();
            }
        }

        @Override
        public void await() {
            synchronized (team) {
                while (!ended.isEmpty()) {
                    ended.remove().run();
                }
            }
        }

        @Override
        public void abort() {
            synchronized (team) {
                LATE.addAndGet(left ? 1 : 0);
                gone = true;
                asked.clear();
            }
        }

        @Override
        public void close() {
            synchronized (team) {
                abort();
                OPEN.addAndGet(left ? 0 : -1);
                left = true;
            }
        }
    }
}
