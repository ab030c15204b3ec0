package main

// What a row of the table of routes says.

// route is one endpoint.
type route struct {
	method  string
	pattern string
	scope   scope
	handler handlerFunc
	doc     routeDoc
}

// routeDoc describes a route besides its method, pattern and scope.
type routeDoc struct {
	summary  string
	query    []param
	body     any // a value of the body's type; nil for none
	optional bool
	answer   any    // a value of the answer's type; nil for none
	status   int    // of a successful answer; 0 means 200
	media    string // of an answer that is not JSON
	problems []int  // statuses besides those that every such route has
}

// param is a query parameter; none is required.
type param struct{ name, kind, text string }
