package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Puts that the network performs by itself, with keys that are freed when their target is closed. */
@Timeout(60)
class NetworkPutsTest {
    @Test
    void failsPutsThatHaveNotBegunWhenTheirTargetIsClosed() {
        Setting setting = new Setting("ucx with network writes", "ucx", false,
                Map.of("tls", "tcp", "writes", "network"));
        Available.assume(setting);
        // The first 16 have begun.
        assertThat(PutContractTest.closeTheTargetOfManyPuts(setting)).hasSize(60).startsWith(false).endsWith(true)
                .filteredOn(outcome -> outcome).hasSizeBetween(1, 16);
    }
}
