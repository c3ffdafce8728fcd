package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The memory of regions. */
class MemoryRegionTest {
    /** A network that has no room for any memory. */
    private static final class FullNetwork implements RemoteWrites {
        private final List<MemorySegment> refused = new ArrayList<>();

        @Override
        public Registration register(MemorySegment memory) {
            refused.add(memory);
            throw new TransportException(TransportException.Problem.NO_ROOM, "the network has no room", "");
        }

        @Override
        public Target attach(Link link, byte[] key) {
            throw new UnsupportedOperationException();
        }
    }

    @Test
    void isReleasedIfTheNetworkCannotRegisterIt() {
        FullNetwork network = new FullNetwork();
        Regions regions = new Regions((_, _) -> { });
        for (boolean share : new boolean[] {false, true}) {
            assertThatThrownBy(() -> regions.register(AllocatedMemory.of(4711, false, share), network))
                    .isInstanceOf(TransportException.class).hasMessageContaining("no room");
        }
        assertThat(network.refused).hasSize(2).noneMatch(memory -> memory.scope().isAlive());
    }

    @Test
    void isReleasedIfTheTransportIsClosedMeanwhile() {
        Transport transport = Transport.open(TransportConfig.of("local", Secret.random()));
        AllocatedMemory memory = transport.allocate(4711);
        MemorySegment segment = memory.segment();
        assertThat(segment.scope().isAlive()).isTrue();
        transport.close();
        assertThatThrownBy(() -> transport.register(memory)).isInstanceOf(TransportException.class)
                .hasMessageContaining("closed");
        assertThat(segment.scope().isAlive()).isFalse();
    }

    /** The system grants more shared memory than it has, and kills the process that fills it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void isRefusedIfTheMachineHasLess(boolean share) {
        TransportException e = catchThrowableOfType(TransportException.class,
                () -> AllocatedMemory.of(1L << 46, false, share));
        assertThat(e.problem()).isEqualTo(TransportException.Problem.NO_ROOM);
        assertThat(e).hasMessageContaining("cannot allocate 70368744177664 bytes: this machine or container has");
    }

    /** What the process uses already counts, too. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void isRefusedIfTheMachineHasTooLittleBesideThisProcess() {
        AllocatedMemory.requireRoom(1 << 20, Long.MAX_VALUE);
        assertThatThrownBy(() -> AllocatedMemory.requireRoom(1 << 20, 2 << 20)).isInstanceOf(TransportException.class)
                .hasMessageContaining("2097152 bytes of memory and swap space, of which this process uses");
    }

    @Test
    void reportsThatTheSystemRefusesMemory() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).sharedMemory(false);
        try (Transport transport = Transport.open(config)) {
            TransportException e = catchThrowableOfType(TransportException.class,
                    () -> transport.registerSparse(1L << 56));
            assertThat(e.problem()).isEqualTo(TransportException.Problem.NO_ROOM);
            assertThat(e).hasMessageContaining(" " + (1L << 56) + " bytes");
        }
    }

    @Test
    void isMappedAlsoForAnInterruptedCaller() {
        try (Transport transport = Transport.open(TransportConfig.of("local", Secret.random()))) {
            Endpoint self = transport.connect(transport.address(), new byte[0]);
            Thread.currentThread().interrupt();
            MemoryRegion region = transport.register(4711);
            try (RemoteRegion mapped = self.open(region.key())) {
                assertThat(mapped.memory() == null).isEqualTo(region.key().process() == 0);
            }
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    /** Interrupts arrive at any moment, also while the file is being mapped. */
    @Test
    void isMappedWhileTheCallerIsInterruptedAgainAndAgain() {
        Thread caller = Thread.currentThread();
        AtomicBoolean done = new AtomicBoolean();
        Thread other = Thread.ofPlatform().start(() -> {
            for (int i = 1; !done.get(); i++) {
                caller.interrupt();
                if (i % 1000 == 0) {
                    LockSupport.parkNanos(200_000); // Without a pause, the caller could fail for ever.
                }
            }
        });
        try (Transport transport = Transport.open(TransportConfig.of("local", Secret.random()))) {
            Endpoint self = transport.connect(transport.address(), new byte[0]);
            for (int i = 0; i < 20 || !caller.isInterrupted(); i++) {
                MemoryRegion region = transport.register(4711);
                try (RemoteRegion mapped = self.open(region.key())) {
                    assertThat(mapped.memory() == null).isEqualTo(region.key().process() == 0);
                }
                region.close();
            }
            done.set(true);
            while (other.isAlive()) {
                Thread.onSpinWait();
            }
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            done.set(true);
            Thread.interrupted();
        }
    }

    /** A network that registers any memory. */
    private record Network(boolean areEmulated) implements RemoteWrites {
        @Override
        public Registration register(MemorySegment memory) {
            return new Registration() {
                @Override
                public byte[] key() {
                    return new byte[1];
                }

                @Override
                public void close() { }
            };
        }

        @Override
        public Target attach(Link link, byte[] key) {
            throw new UnsupportedOperationException();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void outlivesTheWireIfNothingChecksLateWrites(boolean emulated) {
        Regions regions = new Regions((_, _) -> { });
        MemoryRegion idle = regions.register(AllocatedMemory.of(4711, false, false), new Network(emulated));
        MemoryRegion read = regions.register(AllocatedMemory.of(4711, false, false), new Network(emulated));
        read.hold();
        idle.close();
        read.close();
        read.drop();
        assertThat(List.of(idle, read)).allMatch(region -> region.memory().scope().isAlive() == emulated);
        regions.free();
        assertThat(List.of(idle, read)).noneMatch(region -> region.memory().scope().isAlive());
    }
}
