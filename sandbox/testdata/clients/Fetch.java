import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Fetches a URL and prints what it gets. A second argument is a PEM file with the authority to trust. */
class Fetch {
	public static void main(String[] args) throws Exception {
		HttpClient.Builder client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(20));
		if (args.length > 1) {
			client.sslContext(trusting(args[1]));
		}
		HttpRequest request = HttpRequest.newBuilder(URI.create(args[0])).timeout(Duration.ofSeconds(20)).build();
		System.out.println(client.build().send(request, HttpResponse.BodyHandlers.ofString()).body());
	}

	/** Trusts the authority of a PEM file alone. */
	static SSLContext trusting(String file) throws Exception {
		KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
		store.load(null, null);
		try (FileInputStream pem = new FileInputStream(file)) {
			store.setCertificateEntry("test", CertificateFactory.getInstance("X.509").generateCertificate(pem));
		}
		TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		trust.init(store);
		SSLContext tls = SSLContext.getInstance("TLS");
		tls.init(null, trust.getTrustManagers(), null);
		return tls;
	}
}
