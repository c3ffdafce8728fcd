package dev.starling.transport.contract;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.transport.spi.WireProvider;

/** Skips a test where a library is absent. */
final class Available {
    private Available() { }

    static void assume(Setting setting) {
        if (setting.availability() instanceof WireProvider.Availability.Missing(String reason, String remedy)) {
            assumeTrue(false, setting + ": " + reason + "; " + remedy);
        }
    }
}
