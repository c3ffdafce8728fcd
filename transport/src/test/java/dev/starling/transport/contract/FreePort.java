package dev.starling.transport.contract;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.DatagramSocket;
import java.net.ServerSocket;

/** Finds a port that is free for both TCP and UDP. */
public final class FreePort {
    private FreePort() { }

    /** Returns a free port; another process may bind it at any time. */
    public static int find() {
        for (int i = 0; i < 100; i++) {
            try (ServerSocket tcp = new ServerSocket(0); DatagramSocket udp = new DatagramSocket(tcp.getLocalPort())) {
                return udp.getLocalPort();
            } catch (BindException e) {
                continue;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
        throw new IllegalStateException("no port is free");
    }
}
