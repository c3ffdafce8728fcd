package dev.starling.transport.ucx;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

@EnabledOnOs(OS.LINUX)
class HostSocketsTest {
    /** How many are found more while there is a connection from one address to another. */
    private static int found(String from, String to) throws IOException {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(to)); Socket caller = new Socket()) {
            int before = HostSockets.doNotPace();
            caller.bind(new InetSocketAddress(from, 0));
            caller.connect(server.getLocalSocketAddress(), 5_000);
            try (Socket called = server.accept()) {
                int found = HostSockets.doNotPace() - before;
                called.getOutputStream().write(42);
                assertThat(caller.getInputStream().read()).isEqualTo(42);
                return found;
            }
        }
    }

    @Test
    void shouldFindBothEndsOfAConnectionWithinTheHost() throws IOException {
        assertThat(found("127.0.0.1", "127.0.0.1")).isEqualTo(2);
    }

    @Test
    void shouldLeaveConnectionsBetweenDifferentAddressesAlone() throws IOException {
        assertThat(found("127.0.0.1", "127.0.0.2")).isZero();
    }
}
