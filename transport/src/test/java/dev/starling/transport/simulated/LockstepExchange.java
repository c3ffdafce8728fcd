package dev.starling.transport.simulated;

import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Processes that send each other numbers; each sends the next one after it has received those of all others. All
 * processes end, complete or because one is lost.
 */
final class LockstepExchange {
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.ofText("a secret of tests"))
            .livenessTimeout(Duration.ofSeconds(1));
    private static final Duration TIMEOUT = Duration.ofSeconds(20);

    final Simulation simulation;
    final List<Member> members = new ArrayList<>();

    private final List<String> names;

    private LockstepExchange(Simulation simulation, List<String> names) {
        this.simulation = simulation;
        this.names = names;
    }

    static LockstepExchange run(Simulation simulation, List<String> names, int rounds, Duration deadline) {
        LockstepExchange exchange = new LockstepExchange(simulation, names);
        for (String name : names) {
            Member member = exchange.new Member(name);
            exchange.members.add(member);
            simulation.start(name, () -> member.run(rounds));
        }
        simulation.run(deadline);
        return exchange;
    }

    /** One process. */
    final class Member {
        final String name;
        int rounds;
        boolean lost;

        private final List<Endpoint> peers = new ArrayList<>();
        private final int[] received = new int[names.size()];

        Member(String name) {
            this.name = name;
        }

        void run(int maxRounds) {
            try (Transport transport = Transport.over(simulation.wire(name), CONFIG)) {
                transport.onMessage((from, buffer, offset, length) -> receive(buffer.getInt(offset),
                        buffer.getInt(offset + 4)));
                transport.onConnection(new ConnectionHandler() {
                    @Override
                    public void onLost(Endpoint endpoint) {
                        lost = true;
                    }
                });
                names.stream().filter(n -> !n.equals(name)).forEach(n -> peers.add(transport.connect(n, new byte[0])));
                if (connect(transport)) {
                    sendRounds(transport, maxRounds);
                }
                long end = transport.nanoTime() + Duration.ofMillis(200).toNanos();
                while (!lost && transport.nanoTime() < end) {
                    transport.doWork();
                    transport.idle(0);
                }
            }
        }

        private boolean connect(Transport transport) {
            try {
                transport.await(() -> lost || peers.stream().noneMatch(p -> p.state() == Endpoint.State.CONNECTING),
                        TIMEOUT, "the others");
            } catch (TransportException e) {
                lost = true;
            }
            lost |= !peers.stream().allMatch(Endpoint::isConnected);
            return !lost;
        }

        private void sendRounds(Transport transport, int maxRounds) {
            UnsafeBuffer message = new UnsafeBuffer(new byte[8]);
            int me = names.indexOf(name);
            while (rounds < maxRounds) {
                int number = rounds + 1;
                simulation.sleep(Duration.ofNanos(simulation.random().nextLong(20_000_000)));
                received[me] = number;
                message.putInt(0, me);
                message.putInt(4, number);
                for (Endpoint peer : peers) {
                    transport.await(() -> peer.send(message, 0, 8) != Endpoint.BACK_PRESSURED, TIMEOUT, "room");
                }
                transport.await(() -> lost || hasReceived(number), TIMEOUT, "number " + number);
                if (!hasReceived(number)) {
                    return;
                }
                rounds = number;
            }
        }

        private boolean hasReceived(int number) {
            for (int h : received) {
                if (h < number) {
                    return false;
                }
            }
            return true;
        }

        private void receive(int index, int number) {
            if (number != received[index] + 1) {
                throw new AssertionError(name + " got " + number + " of " + names.get(index) + " after "
                        + received[index]);
            }
            received[index] = number;
        }
    }
}
