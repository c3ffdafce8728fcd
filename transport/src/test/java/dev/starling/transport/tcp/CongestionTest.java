package dev.starling.transport.tcp;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class CongestionTest {
    private static boolean isIn(String network, int prefix, String address) throws IOException {
        return Congestion.isIn(InetAddress.getByName(network).getAddress(), prefix,
                InetAddress.getByName(address).getAddress());
    }

    @Test
    void comparesTheBitsOfAPrefix() throws IOException {
        assertThat(isIn("10.78.3.1", 24, "10.78.3.255")).isTrue();
        assertThat(isIn("10.78.3.1", 24, "10.78.2.1")).isFalse();
        assertThat(isIn("10.78.3.1", 23, "10.78.2.1")).isTrue();
        assertThat(isIn("10.78.3.1", 22, "10.78.4.1")).isFalse();
        assertThat(isIn("10.78.3.1", 32, "10.78.3.1")).isTrue();
        assertThat(isIn("10.78.3.1", 32, "10.78.3.0")).isFalse();
        assertThat(isIn("10.78.3.1", 0, "192.168.1.1")).isTrue();
        assertThat(isIn("fe80::1", 64, "fe80::2:3")).isTrue();
        assertThat(isIn("fe80::1", 64, "fe81::1")).isFalse();
        assertThat(isIn("127.0.0.1", 8, "::1")).isFalse();
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void setsTheControlOfOneConnection() throws IOException {
        try (ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
                SocketChannel changed = SocketChannel.open(StandardProtocolFamily.INET);
                SocketChannel other = SocketChannel.open(StandardProtocolFamily.INET)) {
            changed.connect(listener.getLocalAddress());
            other.connect(listener.getLocalAddress());
            String before = Congestion.of(other);
            new Congestion("reno").choose(changed);
            assertThat(Congestion.of(changed)).isEqualTo("reno");
            assertThat(Congestion.of(other)).isEqualTo(before);
            new Congestion(Congestion.SYSTEM).choose(changed);
            assertThat(Congestion.of(changed)).isEqualTo("reno");
            assertThat(Congestion.repeatsEvenly(other)).isFalse();
            new Congestion(Congestion.AUTOMATIC).choose(other);
            assertThat(Congestion.repeatsEvenly(other)).isTrue();
            assertThat(Congestion.repeatsEvenly(changed)).isFalse();
            assertThat(Congestion.of(other)).isNotEmpty().isNotEqualTo("bbr");
        }
    }
}
