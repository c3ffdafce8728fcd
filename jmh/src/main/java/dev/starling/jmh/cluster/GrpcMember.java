package dev.starling.jmh.cluster;

import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Path;

/** Calls from a grpc-java client to a server by TCP on loopback, unencrypted, on the network threads. */
final class GrpcMember implements Member {
    private static final MethodDescriptor<byte[], byte[]> ECHO = MethodDescriptor.<byte[], byte[]>newBuilder(
            new Bytes(), new Bytes())
        .setType(MethodDescriptor.MethodType.UNARY).setFullMethodName("bench/echo").build();

    private final Server server;
    private final ManagedChannel channel;

    GrpcMember(int rank, Path directory) throws IOException, InterruptedException {
        if (rank == 1) {
            server = NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0)).directExecutor()
                .addService(ServerServiceDefinition.builder("bench").addMethod(ECHO,
                    ServerCalls.asyncUnaryCall((request, reply) -> {
                        reply.onNext(request);
                        reply.onCompleted();
                    })).build())
                .build().start();
            channel = null;
            SharedValues.publish(directory, "port", Integer.toString(server.getPort()));
        } else {
            server = null;
            int port = Integer.parseInt(SharedValues.await(directory, "port"));
            channel = NettyChannelBuilder.forAddress("127.0.0.1", port).usePlaintext().directExecutor().build();
        }
    }

    @Override
    public long time(Measure measure, int bytes, int runs) {
        if (channel == null) {
            return 0;
        }
        byte[] request = new byte[bytes];
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            ClientCalls.blockingUnaryCall(channel, ECHO, CallOptions.DEFAULT, request);
        }
        return System.nanoTime() - start;
    }

    @Override
    public void close() {
        if (channel != null) {
            channel.shutdownNow();
        } else {
            server.shutdownNow();
        }
    }

    private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
        @Override
        public InputStream stream(byte[] value) {
            return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
