package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

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
        Regions regions = new Regions(_ -> { });
        for (boolean share : new boolean[] {false, true}) {
            assertThatThrownBy(() -> regions.register(4711, false, share, network))
                    .isInstanceOf(TransportException.class).hasMessageContaining("no room");
        }
        assertThat(network.refused).hasSize(2).noneMatch(memory -> memory.scope().isAlive());
    }
}
