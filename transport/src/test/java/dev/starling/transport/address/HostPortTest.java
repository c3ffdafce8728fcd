package dev.starling.transport.address;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import java.net.BindException;
import java.net.InetSocketAddress;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class HostPortTest {
    @ParameterizedTest
    @ValueSource(strings = {"10.0.0.1:4000", "127.0.0.1:1", "[fe80::1]:4000", "[::]:65535", "[::ffff:10.0.0.1]:1"})
    void knowsNumericAddresses(String address) {
        assertThat(HostPort.isNumeric(address)).isTrue();
        assertThat(HostPort.parse(address).isUnresolved()).isFalse();
    }

    /** Some of these consist of digits and the letters a to f alone, as addresses do, and would be looked up. */
    @ParameterizedTest
    @ValueSource(strings = {"[beef.de]:80", "[0a1b.dead.cc]:80", "[beef]:80", "[10.0.0.1]:80", "[1:2]:80", "[.]:80",
        "999.999.999.999:1", "256.0.0.1:1", "1.2.3:4", "1:4", "name:80", "a.name:80", "fe80::1:80", "[fe80::1%lo]:80",
        "10.0.0.1", "10.0.0.1:", ""})
    void takesNoNameForAnAddress(String address) {
        assertThat(HostPort.isNumeric(address)).isFalse();
    }

    @ParameterizedTest
    @ValueSource(strings = {"10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.1:-1", ":80", "fe80::1:80",
        ""})
    void refusesWhatIsNoAddress(String address) {
        assertThatThrownBy(() -> HostPort.parse(address)).isInstanceOf(TransportException.class)
                .hasMessageContaining("is not an address in a network");
    }

    @ParameterizedTest
    @ValueSource(strings = {"10.0.0.1", "fe80::1", "[fe80::1]", "name"})
    void formatsAddressesThatItCanParse(String host) {
        assertThat(HostPort.format(host, 80)).isIn(host + ":80", "[" + host + "]:80");
    }

    /** With the messages that Java gives for errors of Linux. */
    @Test
    void tellsWhyNoSocketCanListen() {
        InetSocketAddress socket = new InetSocketAddress("127.0.0.1", 80);
        TransportException denied = HostPort.unbound(socket, new BindException("Permission denied"), "");
        assertThat(denied.problem()).isEqualTo(Problem.UNAVAILABLE);
        assertThat(denied).hasMessageContaining("not permit").hasMessageContaining("port 80 at 127.0.0.1");
        TransportException used = HostPort.unbound(socket, new BindException("Address already in use"), "");
        assertThat(used.problem()).isEqualTo(Problem.IN_USE);
        TransportException foreign = HostPort.unbound(socket, new BindException("Cannot assign requested address"),
                "name another");
        assertThat(foreign.problem()).isEqualTo(Problem.ARGUMENT);
        assertThat(foreign).hasMessageContaining("127.0.0.1 is not").hasMessageContaining("name another");
    }
}
