package parser

// newCaddyJSON makes the preset "caddy": the access log of Caddy 2, which is
// JSON unless set otherwise.
//
// Peer: request.remote_ip, the connection's other end (or what a PROXY
// protocol header says), before version 2.5 request.remote_addr with its port. Not request.client_ip, which Caddy takes from a
// header when the peer is one of its trusted_proxies: resolving is done here,
// with our own list. Forwarding header: request.headers.X-Forwarded-For, all
// of its lines.
//
// Errors of handlers (logger http.log.error) carry the same fields as the
// access line that follows them, and are left out so that no request counts
// twice.
//
// Source: Caddy's manual, "How Logging Works", and its log encoders'
// marshalling of requests (modules/caddyhttp/marshalers.go).
func newCaddyJSON() (Format, error) {
	j, err := newJSON(JSONFields{
		Peer:    "request.remote_ip",
		Forward: "request.headers.X-Forwarded-For[*]",
		Time:    "ts",
		Method:  "request.method",
		Target:  "request.uri",
		Proto:   "request.proto",
		Status:  "status",
		Bytes:   "size",
		Host:    "request.host",
		Referer: "request.headers.Referer[0]",
		Agent:   "request.headers.User-Agent[0]",
		User:    "user_id",
	}, "logger", "http.log.access")
	if err != nil {
		return nil, err
	}
	return j, j.root.add("request.remote_addr", jsonOlder)
}

// newTraefikJSON makes the preset "traefik": Traefik's access log with
// format json.
//
// Peer: ClientAddr, the connection's other end (or what a PROXY protocol
// header says), with its port. Forwarding header: ClientHost, which is the
// value of X-Forwarded-For as far as the entry point's forwardedHeaders let
// it through, and the peer again without one. With
// forwardedHeaders.insecure anybody writes it; that is harmless here, as a
// header counts only if the peer is trusted.
//
// Referer and agent are there if accessLog.fields.headers keeps these two.
//
// Source: Traefik's manual, "Access logs", and its access log middleware
// (pkg/middlewares/accesslog/logger.go).
func newTraefikJSON() (Format, error) {
	return NewJSON(JSONFields{
		Peer:    "ClientAddr",
		Forward: "ClientHost",
		Time:    "StartUTC",
		Method:  "RequestMethod",
		Target:  "RequestPath",
		Proto:   "RequestProtocol",
		Status:  "DownstreamStatus",
		Bytes:   "DownstreamContentSize",
		Host:    "RequestHost",
		Referer: "request_Referer",
		Agent:   "request_User-Agent",
		User:    "ClientUsername",
	})
}

// newNginxJSON makes the preset "nginx-json": a log_format with escape=json
// whose keys are the names of nginx's variables. Only the first two are
// needed, and these should stand first:
//
//	log_format json escape=json '{"time_iso8601":"$time_iso8601",'
//	    '"remote_addr":"$remote_addr","remote_user":"$remote_user",'
//	    '"request":"$request","status":"$status",'
//	    '"body_bytes_sent":"$body_bytes_sent","host":"$host",'
//	    '"http_referer":"$http_referer","http_user_agent":"$http_user_agent",'
//	    '"http_x_forwarded_for":"$http_x_forwarded_for"}';
//
// Instead of request there may be request_method, request_uri and
// server_protocol; but nginx leaves these empty when it can't read a request,
// and request shows it, and request_method can be that of an error page. If both
// are there, request counts. Numbers may stand without quotes.
//
// Peer: remote_addr, which the realip module rewrites; with that module log
// "remote_addr":"$realip_remote_addr". Forwarding header:
// http_x_forwarded_for.
//
// Source: nginx ngx_http_log_module and ngx_http_core_module, "Embedded
// Variables".
func newNginxJSON() (Format, error) {
	j, err := newJSON(JSONFields{
		Peer:    "remote_addr",
		Forward: "http_x_forwarded_for",
		Time:    "time_iso8601",
		Request: "request",
		Method:  "request_method",
		Target:  "request_uri",
		Proto:   "server_protocol",
		Status:  "status",
		Bytes:   "body_bytes_sent",
		Host:    "host",
		Referer: "http_referer",
		Agent:   "http_user_agent",
		User:    "remote_user",
	}, "", "")
	if err != nil {
		return nil, err
	}
	j.whole = true
	return j, nil
}
